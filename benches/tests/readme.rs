//! The program in README.md is the example that it is said to be. (Its doctest, in `lib.rs`, runs
//! it.)

#[test]
fn example() {
    let (readme, example) =
        (include_str!("../../README.md"), include_str!("../../crates/brolga/examples/first_gradient.rs"));
    let (_, shown) = readme.split_once("```rust\n").expect("README.md has a program");
    let (shown, _) = shown.split_once("```\n").expect("its block is closed");
    let (_, program) = example.split_once("\n\n").expect("the example has a header");
    assert_eq!(shown, program);
}
