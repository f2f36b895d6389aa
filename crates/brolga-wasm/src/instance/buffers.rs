//! Buffers of an instance: memory as the host sees it, with blocks for arguments, floats in them,
//! and their cotangents.
//!
//! **Question.** A host calls a module's function with arrays. How do they get into the instance's
//! memory, and their cotangents out of its shadow?
//!
//! **Answer.** [`Instance::alloc`] gets a block from the module's own allocator, if it has one,
//! otherwise in pages by which memory grows. [`Instance::write_f64`], [`Instance::read_f64`] and
//! those of singles copy floats in and out, [`Instance::shadow_f64`] and
//! [`Instance::set_shadow_f64`] cotangents. What the host writes is known to be floats of that size
//! whenever a derivative begins; [`Instance::declare_floats`] says so of what was written in
//! another way.
//!
//! **Errors.** What lies outside of memory, and a block for which there is no room.
//!
//! **Cost.** A copy of each array, and for what is known an entry for each range that was written.

use crate::error::Error;
use crate::instance::Instance;
use crate::layout::PAGE;
use crate::val::Val;

/// A float in memory.
trait Float: Copy {
    const SIZE: usize;
    fn from_bytes(bytes: &[u8]) -> Self;
    fn put(self, to: &mut [u8]);
}

impl Float for f64 {
    const SIZE: usize = 8;

    fn from_bytes(bytes: &[u8]) -> Self {
        f64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    fn put(self, to: &mut [u8]) {
        to.copy_from_slice(&self.to_le_bytes());
    }
}

impl Float for f32 {
    const SIZE: usize = 4;

    fn from_bytes(bytes: &[u8]) -> Self {
        f32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    fn put(self, to: &mut [u8]) {
        to.copy_from_slice(&self.to_le_bytes());
    }
}

fn floats<T: Float>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::from_bytes).collect()
}

fn put<T: Float>(to: &mut [u8], values: &[T]) {
    to.chunks_exact_mut(T::SIZE).zip(values).for_each(|(to, v)| v.put(to));
}

impl Instance {
    /// Memory for `bytes` bytes: by the module's own `malloc` (`calloc`, `operator new`,
    /// `__rust_alloc`), if it has one that is exported or has a name, else in pages that memory
    /// grows by. At least 16-byte aligned in the second case. (A C library takes all of memory
    /// after its data for its heap when it is first asked, so others had better not use it.)
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let at = instance.alloc(24)?;
    /// assert!(at % 16 == 0 && u64::from(at) + 24 <= instance.memory_size());
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no memory left.
    pub fn alloc(&mut self, bytes: u32) -> Result<u32, Error> {
        let full = || Error::Usage(format!("no room for {bytes} bytes in the instance's memory"));
        let module = self.module.clone();
        let source = module.0.source.and_then(|s| Some((module.0.translated.funcs[s.index as usize]?, s)));
        if let Some((key, source)) = source {
            let p = self.enter(key, &module.0.types[source.index as usize], &(source.args)(bytes))?;
            let &[Val::I32(p)] = &p[..] else { return Err(full()) };
            if p == 0 {
                return Err(full());
            }
            self.known.put(p as u32, bytes as usize, None);
            return Ok(p as u32);
        }
        let need = u64::from(bytes.max(1)).next_multiple_of(16);
        if self.spare.0 + need > self.spare.1 {
            let size = self.memory_size();
            // Pages without growth in between are one piece with those that are left.
            let from = if self.spare.1 == size { self.spare.0 } else { size };
            let new = (from + need).next_multiple_of(PAGE);
            let most = self.module.0.layout.memory_max.first().copied().unwrap_or(0);
            if new > most {
                return Err(full());
            }
            self.state.region.open(0, new)?;
            self.set_cell(self.module.0.layout.memory_size[0], new);
            self.spare = (from, new);
        }
        let at = self.spare.0;
        self.spare.0 += need;
        Ok(at as u32)
    }

    /// Say that from `at` on there are `n` floats of `size` bytes each, 4 or 8, whenever a
    /// derivative begins. It is known of what [`Self::write_f64`] and its like have written, so
    /// only who fills memory in another way ([`Self::memory_mut`]) has a reason to say it. Two
    /// kinds of programs ask. Those that move floats in pieces, in a module with floats of both
    /// sizes: cotangents that come in pieces to where the program itself writes nothing are put
    /// together as what is there. And those that make numbers of integers in memory: where a float
    /// is, the run traps (`untracked_bits`). It is taken on trust. A size of 0 says that something
    /// else is there, in `n` bytes.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.memory_mut()[64..72].copy_from_slice(&1.5_f64.to_le_bytes());
    /// instance.declare_floats(64, 1, 8)?;
    /// assert!(instance.declare_floats(68, 1, 8).is_err()); // not at a multiple of eight
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if they are outside of memory, not at a multiple of their size, or of
    /// another size.
    pub fn declare_floats(&mut self, at: u32, n: usize, size: u32) -> Result<(), Error> {
        if !matches!(size, 0 | 4 | 8) || size != 0 && !at.is_multiple_of(size) {
            return Err(Error::Usage(format!("floats of {size} bytes cannot be at address {at}")));
        }
        let range = self.range(at, n.saturating_mul(size.max(1) as usize))?;
        self.known.put(at, range.len(), (size != 0).then_some(size));
        Ok(())
    }

    /// A buffer of doubles in newly allocated memory.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let x = instance.alloc_f64(&[1.0, 2.0])?;
    /// assert_eq!(instance.read_f64(x, 2)?, [1.0, 2.0]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub fn alloc_f64(&mut self, values: &[f64]) -> Result<u32, Error> {
        let at = self.alloc(8 * values.len() as u32)?;
        self.write_f64(at, values)?;
        Ok(at)
    }

    /// A buffer of singles in newly allocated memory.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let x = instance.alloc_f32(&[1.0, 2.0])?;
    /// assert_eq!(instance.read_f32(x, 2)?, [1.0, 2.0]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::alloc`].
    pub fn alloc_f32(&mut self, values: &[f32]) -> Result<u32, Error> {
        let at = self.alloc(4 * values.len() as u32)?;
        self.write_f32(at, values)?;
        Ok(at)
    }

    fn range(&self, at: u32, bytes: usize) -> Result<std::ops::Range<usize>, Error> {
        let end = u64::from(at).saturating_add(bytes as u64);
        if end > self.memory_size() {
            return Err(Error::Usage(format!(
                "bytes {at} to {end} are outside of memory ({} bytes)",
                self.memory_size()
            )));
        }
        Ok(at as usize..end as usize)
    }

    fn read<T: Float>(&self, memory: &[u8], at: u32, n: usize) -> Result<Vec<T>, Error> {
        Ok(floats(&memory[self.range(at, T::SIZE * n)?]))
    }

    fn write<T: Float>(&mut self, at: u32, values: &[T]) -> Result<(), Error> {
        let range = self.range(at, T::SIZE * values.len())?;
        self.known.put(at, range.len(), Some(T::SIZE as u32));
        put(&mut self.memory_mut()[range], values);
        Ok(())
    }

    fn set_shadow<T: Float>(&mut self, at: u32, values: &[T]) -> Result<(), Error> {
        let range = self.range(at, T::SIZE * values.len())?;
        put(&mut self.shadow_mut()[range], values);
        Ok(())
    }

    /// `n` doubles of memory.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert_eq!(instance.read_f64(64, 2)?, [0.0, 0.0]);
    /// assert!(instance.read_f64(65532, 1).is_err()); // it ends outside of memory
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if they are outside of memory; so below.
    pub fn read_f64(&self, at: u32, n: usize) -> Result<Vec<f64>, Error> {
        self.read(self.memory(), at, n)
    }

    /// `n` singles of memory.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// assert_eq!(instance.read_f32(64, 2)?, [0.0, 0.0]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::read_f64`].
    pub fn read_f32(&self, at: u32, n: usize) -> Result<Vec<f32>, Error> {
        self.read(self.memory(), at, n)
    }

    /// Write doubles to memory. As long as the host writes nothing else there, they are taken to be
    /// there whenever a derivative begins ([`Self::declare_floats`]).
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.write_f64(64, &[1.5])?;
    /// assert_eq!(instance.read_f64(64, 1)?, [1.5]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::read_f64`].
    pub fn write_f64(&mut self, at: u32, values: &[f64]) -> Result<(), Error> {
        self.write(at, values)
    }

    /// Write singles to memory. As long as the host writes nothing else there, they are taken to be
    /// there whenever a derivative begins ([`Self::declare_floats`]).
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.write_f32(64, &[1.5])?;
    /// assert_eq!(instance.read_f32(64, 1)?, [1.5]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::read_f64`].
    pub fn write_f32(&mut self, at: u32, values: &[f32]) -> Result<(), Error> {
        self.write(at, values)
    }

    /// The cotangents of `n` doubles of memory.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// let gradient = Gradient::new(&module, "scaled")?; // 2 · *x
    /// let x = instance.alloc_f64(&[5.0])?;
    /// instance.gradient(&gradient, &[Val::I32(x as i32)], &[Val::F64(1.0)])?;
    /// assert_eq!(instance.shadow_f64(x, 1)?, [2.0]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::read_f64`].
    pub fn shadow_f64(&self, at: u32, n: usize) -> Result<Vec<f64>, Error> {
        self.read(self.shadow(), at, n)
    }

    /// The cotangents of `n` singles of memory.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.set_shadow_f32(64, &[0.5])?;
    /// assert_eq!(instance.shadow_f32(64, 1)?, [0.5]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::read_f64`].
    pub fn shadow_f32(&self, at: u32, n: usize) -> Result<Vec<f32>, Error> {
        self.read(self.shadow(), at, n)
    }

    /// Set cotangents of doubles: seeds of what a function will write, or zeros.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.set_shadow_f64(64, &[0.5])?;
    /// assert_eq!(instance.shadow_f64(64, 1)?, [0.5]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::read_f64`].
    pub fn set_shadow_f64(&mut self, at: u32, values: &[f64]) -> Result<(), Error> {
        self.set_shadow(at, values)
    }

    /// Set cotangents of singles: seeds of what a function will write, or zeros.
    ///
    /// ```
    /// # use brolga_wasm::{Error, Gradient, Instance, InstanceOptions, Module, ModuleOptions, Val, ValType};
    /// # let module = Module::new(r#"(module (memory (export "memory") 1) (global (export "scale") (mut f64) (f64.const 2))
    /// #     (func (export "square") (param f64) (result f64) (f64.mul (local.get 0) (local.get 0)))
    /// #     (func (export "scaled") (param i32) (result f64) (f64.mul (global.get 0) (f64.load (local.get 0)))))"#)?;
    /// # let mut instance = Instance::new(&module)?;
    /// instance.set_shadow_f32(64, &[0.5])?;
    /// assert_eq!(instance.shadow_f32(64, 1)?, [0.5]);
    /// # Ok::<(), brolga_wasm::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::read_f64`].
    pub fn set_shadow_f32(&mut self, at: u32, values: &[f32]) -> Result<(), Error> {
        self.set_shadow(at, values)
    }
}
