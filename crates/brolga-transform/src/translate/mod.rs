//! Translation of statements (`make_ad_stmts`): each becomes a forward fragment, a reverse
//! fragment, and what the one hands to the other.

pub(crate) mod convert;
pub mod rules;
pub mod stmt;
