//! Bytes as base64 (RFC 4648, with padding), the form of bytes in the protocol's JSON.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(data: &[u8]) -> String {
    let mut text = String::with_capacity((data.len() + 2) / 3 * 4);
    for part in data.chunks(3) {
        let bits = part.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place)) as usize & 63] as char;
            text.push(if place <= part.len() { letter } else { '=' });
        }
    }
    text
}

/// None if the text is not base64.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=').as_bytes();
    if text.len() % 4 != 0 || text.len() - letters.len() > 2 {
        return None;
    }
    let mut data = Vec::with_capacity(text.len() / 4 * 3);
    for part in letters.chunks(4) {
        let mut bits = 0u32;
        for letter in part {
            bits = bits << 6 | LETTERS.iter().position(|each| each == letter)? as u32;
        }
        bits <<= 6 * (4 - part.len());
        data.extend_from_slice(&bits.to_be_bytes()[1..part.len()]);
    }
    Some(data)
}
