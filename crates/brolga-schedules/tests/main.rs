//! Schedules against closed forms, published tables and a machine that believes nothing.

mod budget;
mod counts;
mod golden;
mod machine;
mod slots;
