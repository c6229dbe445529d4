//! JSON values and their text.

use std::fmt;

/// How deep values may be nested: a guest's stack is small, and its overflow is a trap without a message.
const DEPTH: usize = 128;

/// A JSON value. Numbers keep their text, so that none loses a digit; objects keep the order of their keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// The value of a text; the error says where it ends to be JSON.
    pub fn parse(text: &[u8]) -> Result<Json, String> {
        let mut parser = Parser { text, at: 0 };
        let found = parser.value(0)?;
        parser.space();
        if parser.at < text.len() {
            return parser.fault("the end");
        }
        Ok(found)
    }

    pub fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
        Json::Object(IntoIterator::into_iter(fields).map(|(key, value)| (key.to_string(), value)).collect())
    }

    /// The value of an object's key; the last one if the key is repeated.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().rev().find(|(each, _)| each == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// Sets a key of an object, which any other value becomes.
    pub fn set(&mut self, key: &str, value: Json) {
        if !matches!(self, Json::Object(_)) {
            *self = Json::Object(Vec::new());
        }
        if let Json::Object(fields) = self {
            fields.retain(|(each, _)| each != key);
            fields.push((key.to_string(), value));
        }
    }

    /// The type of the value, for messages: they name no value, which may be a secret.
    pub fn kind(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "a boolean",
            Json::Number(_) => "a number",
            Json::String(_) => "a string",
            Json::Array(_) => "an array",
            Json::Object(_) => "an object",
        }
    }
}

impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Json::Null => out.write_str("null"),
            Json::Bool(value) => write!(out, "{}", value),
            Json::Number(text) => out.write_str(text),
            Json::String(text) => write_string(text, out),
            Json::Array(items) => {
                out.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    write!(out, "{}{}", if place > 0 { "," } else { "" }, item)?;
                }
                out.write_str("]")
            }
            Json::Object(fields) => {
                out.write_str("{")?;
                for (place, (key, value)) in fields.iter().enumerate() {
                    out.write_str(if place > 0 { "," } else { "" })?;
                    write_string(key, out)?;
                    write!(out, ":{}", value)?;
                }
                out.write_str("}")
            }
        }
    }
}

fn write_string(text: &str, out: &mut fmt::Formatter) -> fmt::Result {
    out.write_str("\"")?;
    let mut done = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.write_str(&text[done..at])?;
        match byte {
            b'"' => out.write_str("\\\"")?,
            b'\\' => out.write_str("\\\\")?,
            _ => write!(out, "\\u{:04x}", byte)?,
        }
        done = at + 1;
    }
    out.write_str(&text[done..])?;
    out.write_str("\"")
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn fault<T>(&self, expected: &str) -> Result<T, String> {
        Err(format!("expected {} at byte {} of the JSON", expected, self.at))
    }

    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// Skips space and the byte, if it is next.
    fn skip(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == byte && self.at < self.text.len();
        self.at += found as usize;
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        if depth > DEPTH {
            return self.fault("at most 128 levels");
        }
        self.space();
        match self.peek() {
            b'{' => self.members(depth),
            b'[' => self.items(depth),
            b'"' => Ok(Json::String(self.string()?)),
            b'-' | b'0'..=b'9' => self.number(),
            _ => {
                for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))] {
                    if self.text[self.at.min(self.text.len())..].starts_with(word.as_bytes()) {
                        self.at += word.len();
                        return Ok(value);
                    }
                }
                self.fault("a value")
            }
        }
    }

    fn members(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut fields = Vec::new();
        if self.skip(b'}') {
            return Ok(Json::Object(fields));
        }
        loop {
            self.space();
            if self.peek() != b'"' {
                return self.fault("a key");
            }
            let key = self.string()?;
            if !self.skip(b':') {
                return self.fault("a colon");
            }
            fields.push((key, self.value(depth + 1)?));
            if self.skip(b'}') {
                return Ok(Json::Object(fields));
            }
            if !self.skip(b',') {
                return self.fault("a comma or a brace");
            }
        }
    }

    fn items(&mut self, depth: usize) -> Result<Json, String> {
        self.at += 1;
        let mut items = Vec::new();
        if self.skip(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.skip(b']') {
                return Ok(Json::Array(items));
            }
            if !self.skip(b',') {
                return self.fault("a comma or a bracket");
            }
        }
    }

    fn digits(&mut self) -> Result<(), String> {
        if !self.peek().is_ascii_digit() {
            return self.fault("a digit");
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<Json, String> {
        let start = self.at;
        self.at += (self.peek() == b'-') as usize;
        if self.peek() == b'0' {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.at += matches!(self.peek(), b'+' | b'-') as usize;
            self.digits()?;
        }
        Ok(Json::Number(String::from_utf8_lossy(&self.text[start..self.at]).into_owned()))
    }

    fn string(&mut self) -> Result<String, String> {
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let start = self.at;
            while self.at < self.text.len() && self.peek() >= 0x20 && !matches!(self.peek(), b'"' | b'\\') {
                self.at += 1;
            }
            bytes.extend_from_slice(&self.text[start..self.at]);
            match self.peek() {
                b'"' => break,
                b'\\' => {
                    let escaped = self.escape()?;
                    bytes.extend_from_slice(escaped.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => return self.fault("a character of a string or its end"),
            }
        }
        self.at += 1;
        String::from_utf8(bytes).or_else(|_| self.fault("UTF-8"))
    }

    fn escape(&mut self) -> Result<char, String> {
        self.at += 2;
        Ok(match self.text.get(self.at - 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let mut code = self.unit()?;
                if (0xd800..0xdc00).contains(&code) && self.text[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let low = self.unit()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return self.fault("the second half of a surrogate pair");
                    }
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                match char::from_u32(code) {
                    Some(found) => found,
                    None => return self.fault("a character"),
                }
            }
            _ => return self.fault("an escape"),
        })
    }

    fn unit(&mut self) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..4 {
            match (self.peek() as char).to_digit(16) {
                Some(digit) => code = code * 16 + digit,
                None => return self.fault("four hexadecimal digits"),
            }
            self.at += 1;
        }
        Ok(code)
    }
}
