//! Files, calls, checks and explanations, as the command line and the file tests use them.

mod bind;
mod check;
mod explain;
mod load;
mod no_room;
