//! The JSON form of the protocol's types: structs are objects, enums without fields are snake_case strings, other enums
//! are externally tagged (`{"int64": 5}`), bytes are base64. Unknown keys are ignored.

use crate::json::Json;

pub trait ToJson {
    fn to_json(&self) -> Json;
}

pub trait FromJson: Sized {
    /// The value; the error says what was expected and what was found.
    fn from_json(json: &Json) -> Result<Self, String>;

    /// The value of a key that is absent. None: the key is required.
    fn absent() -> Option<Self> {
        None
    }
}

/// The error of a value of another type.
pub fn unexpected<T>(expected: &str, found: &Json) -> Result<T, String> {
    Err(format!("expected {}, found {}", expected, found.kind()))
}

/// The value of a key of an object; `default` if it is absent.
pub fn field<T: FromJson>(json: &Json, key: &str, default: Option<T>) -> Result<T, String> {
    match (json, json.get(key)) {
        (_, Some(value)) => T::from_json(value).map_err(|error| format!("{}: {}", key, error)),
        (Json::Object(_), None) => default.or_else(T::absent).ok_or_else(|| format!("{}: missing", key)),
        (other, None) => unexpected("an object", other),
    }
}

/// The tag of a variant and what is in it: `"null"` has nothing, `{"int64": 5}` a number.
pub fn tagged(json: &Json) -> Result<(&str, Option<&Json>), String> {
    match json {
        Json::String(tag) => Ok((tag, None)),
        Json::Object(fields) if fields.len() == 1 => Ok((&fields[0].0, Some(&fields[0].1))),
        other => unexpected("a tag, or an object with one", other),
    }
}

/// The inverse of `tagged`.
pub fn tag(name: &str, content: Json) -> Json {
    Json::object([(name, content)])
}

impl ToJson for Json {
    fn to_json(&self) -> Json {
        self.clone()
    }
}

impl FromJson for Json {
    fn from_json(json: &Json) -> Result<Self, String> {
        Ok(json.clone())
    }
}

impl ToJson for bool {
    fn to_json(&self) -> Json {
        Json::Bool(*self)
    }
}

impl FromJson for bool {
    fn from_json(json: &Json) -> Result<Self, String> {
        match json {
            Json::Bool(value) => Ok(*value),
            other => unexpected("a boolean", other),
        }
    }
}

impl ToJson for String {
    fn to_json(&self) -> Json {
        Json::String(self.clone())
    }
}

impl FromJson for String {
    fn from_json(json: &Json) -> Result<Self, String> {
        match json {
            Json::String(value) => Ok(value.clone()),
            other => unexpected("a string", other),
        }
    }
}

macro_rules! integers {
    ($($kind:ty),*) => {$(
        impl ToJson for $kind {
            fn to_json(&self) -> Json {
                Json::Number(self.to_string())
            }
        }

        impl FromJson for $kind {
            fn from_json(json: &Json) -> Result<Self, String> {
                let expected = || format!("an integer from {} to {}", <$kind>::MIN, <$kind>::MAX);
                match json {
                    Json::Number(text) => {
                        text.parse().map_err(|_| format!("expected {}, found another number", expected()))
                    }
                    other => unexpected(&expected(), other),
                }
            }
        }
    )*};
}
integers!(i32, u32, i64, u64, i128);

impl ToJson for f64 {
    /// Null if it is not finite: JSON has no form for that.
    fn to_json(&self) -> Json {
        if self.is_finite() {
            Json::Number(format!("{:?}", self))
        } else {
            Json::Null
        }
    }
}

impl FromJson for f64 {
    fn from_json(json: &Json) -> Result<Self, String> {
        match json {
            Json::Number(text) => text.parse().or_else(|_| unexpected("a number", json)),
            other => unexpected("a number", other),
        }
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn to_json(&self) -> Json {
        self.as_ref().map_or(Json::Null, ToJson::to_json)
    }
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(json: &Json) -> Result<Self, String> {
        if *json == Json::Null {
            Ok(None)
        } else {
            T::from_json(json).map(Some)
        }
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn to_json(&self) -> Json {
        Json::Array(self.iter().map(ToJson::to_json).collect())
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(json: &Json) -> Result<Self, String> {
        match json {
            Json::Array(items) => items.iter().map(T::from_json).collect(),
            other => unexpected("an array", other),
        }
    }
}

impl ToJson for (String, String) {
    fn to_json(&self) -> Json {
        Json::Array(vec![self.0.to_json(), self.1.to_json()])
    }
}

impl FromJson for (String, String) {
    fn from_json(json: &Json) -> Result<Self, String> {
        match json {
            Json::Array(items) if items.len() == 2 => {
                Ok((String::from_json(&items[0])?, String::from_json(&items[1])?))
            }
            other => unexpected("a pair of strings", other),
        }
    }
}

/// A struct with its JSON form. `= value` behind a field: what it is if its key is absent.
macro_rules! json_struct {
    ($(#[$of_struct:meta])* pub struct $name:ident {
        $($(#[$of_field:meta])* pub $field:ident: $kind:ty $(= $default:expr)?,)*
    }) => {
        $(#[$of_struct])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$of_field])* pub $field: $kind,)*
        }

        impl $crate::json_form::ToJson for $name {
            fn to_json(&self) -> $crate::json::Json {
                $crate::json::Json::object([$((stringify!($field), self.$field.to_json()),)*])
            }
        }

        impl $crate::json_form::FromJson for $name {
            fn from_json(json: &$crate::json::Json) -> std::result::Result<Self, String> {
                Ok($name {
                    $($field: {
                        #[allow(unused_mut, unused_assignments)]
                        let mut default: Option<$kind> = None;
                        $(default = Some($default);)?
                        $crate::json_form::field(json, stringify!($field), default)?
                    },)*
                })
            }
        }
    };
}
pub(crate) use json_struct;

/// An enum without fields, with its JSON form.
macro_rules! json_enum {
    ($(#[$of_enum:meta])* pub enum $name:ident { $($variant:ident = $text:literal,)* }) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($variant,)*
        }

        impl $name {
            /// Its name in JSON.
            pub fn as_str(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }

        impl $crate::json_form::ToJson for $name {
            fn to_json(&self) -> $crate::json::Json {
                $crate::json::Json::String(self.as_str().to_string())
            }
        }

        impl $crate::json_form::FromJson for $name {
            fn from_json(json: &$crate::json::Json) -> std::result::Result<Self, String> {
                match String::from_json(json)?.as_str() {
                    $($text => Ok($name::$variant),)*
                    other => Err(format!("expected one of {}, found {}", [$($text),*].join(", "), other)),
                }
            }
        }
    };
}
pub(crate) use json_enum;
