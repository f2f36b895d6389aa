//! wasm-to-clif MODULE.wasm DIR [none|speed]: writes the CLIF which Wasmtime makes of every
//! function of a module.
use wasmtime::{Config, Engine, Module, OptLevel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let mut config = Config::new();
    std::fs::create_dir_all(&args[2])?;
    config.emit_clif(std::path::Path::new(&args[2]));
    config.cranelift_opt_level(match args.get(3).map(String::as_str) {
        Some("none") => OptLevel::None,
        _ => OptLevel::Speed,
    });
    Module::from_file(&Engine::new(&config)?, &args[1])?;
    Ok(())
}
