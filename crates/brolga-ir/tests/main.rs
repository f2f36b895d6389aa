//! Tables and printing of derived code.

mod print;
mod table;
mod verify;
