//! Smaller programs that fail in the same way.
pub fn reduce(_: &crate::outside::Outside, text: &str, _: &str) -> anyhow::Result<String> { Ok(text.to_owned()) }
