//! CLIF files, calls and directives: what the xtask driver and the file tests share.
