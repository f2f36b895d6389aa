//! States that are kept in memory and in a file, and each way in which they can be lost.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brolga_schedules::{
    Method, Reversal, RunError, Schedule, SlotError, SlotId, Slots, Stats, StepId, TimeLoop, forward, reverse,
};

/// A folder of the test's, which is removed when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<PathBuf> {
        fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().path()).collect()
    }

    /// Slots in a file that the test has open as well.
    fn slots(&self) -> (Slots, File) {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(self.0.join("states")).unwrap();
        (Slots::in_file(file.try_clone().unwrap(), u64::MAX), file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const FILE: SlotId = SlotId::Disk(0);

fn read(slots: &mut Slots, slot: SlotId, step: u64, bytes: usize) -> Result<Vec<u8>, SlotError> {
    let mut state = vec![0; bytes];
    let (front, back) = state.split_at_mut(bytes / 3);
    slots.restore(slot, StepId(step), [front, back])?;
    Ok(state)
}

#[test]
fn states_come_back() {
    let folder = Folder::new("back");
    let mut slots = Slots::in_folder(&folder.0, 1 << 20).unwrap();
    if cfg!(unix) {
        assert!(folder.names().is_empty(), "the file has a name");
    }
    let state = |n: u8, size: usize| (0..size).map(|i| (i as u8).wrapping_mul(31) ^ n).collect::<Vec<u8>>();
    for place in [SlotId::Memory, SlotId::Disk] {
        for (n, size) in [(0, 1000), (1, 0), (2, 70_000), (3, 1)] {
            let bytes = state(n, size);
            let (front, back) = bytes.split_at(size / 2);
            slots.store(place(u32::from(n)), StepId(u64::from(n) * 10), [front, back]).unwrap();
        }
        // Another state, which needs more room, in place of one that was dropped.
        slots.drop_slot(place(0));
        slots.store(place(0), StepId(5), [&state(9, 2000)[..]]).unwrap();
        for (n, size, step, seed) in [(0, 2000, 5, 9), (1, 0, 10, 1), (2, 70_000, 20, 2), (3, 1, 30, 3)] {
            for _ in 0..2 {
                assert!(read(&mut slots, place(n), step, size).unwrap() == state(seed, size), "slot {n}");
            }
        }
        // Not what the slot holds.
        for (step, bytes) in [(6, 2000), (5, 1999), (5, 2001)] {
            assert!(matches!(read(&mut slots, place(0), step, bytes), Err(SlotError::Missing { .. })));
        }
        (0..4).for_each(|n| slots.drop_slot(place(n)));
        assert!(matches!(read(&mut slots, place(3), 30, 1), Err(SlotError::Missing { .. })));
    }
    assert_eq!((slots.bytes(), slots.file_bytes()), (0, 0));
}

#[test]
fn room_in_the_file_is_used_again() {
    let folder = Folder::new("room");
    let (mut slots, file) = folder.slots();
    let state = [7_u8; 100];
    (0..4).for_each(|n| slots.store(SlotId::Disk(n), StepId(0), [&state[..]]).unwrap());
    let four = slots.file_bytes();
    for _ in 0..10 {
        slots.drop_slot(SlotId::Disk(1));
        slots.store(SlotId::Disk(1), StepId(0), [&state[..]]).unwrap();
        slots.store(SlotId::Disk(2), StepId(0), [&state[..50]]).unwrap();
    }
    assert_eq!((slots.file_bytes(), file.metadata().unwrap().len()), (four, four));
    slots.drop_slot(SlotId::Disk(2));
    assert_eq!(slots.file_bytes(), four);
    slots.drop_slot(SlotId::Disk(3));
    assert_eq!((slots.file_bytes(), file.metadata().unwrap().len()), (four / 2, four / 2));
}

#[test]
fn a_folder_that_is_not_one() {
    let folder = Folder::new("folder");
    let file = folder.0.join("file");
    File::create(&file).unwrap();
    for path in [folder.0.join("missing"), file] {
        let error = Slots::in_folder(&path, u64::MAX).unwrap_err();
        assert!(matches!(error, SlotError::Folder { .. }));
        assert!(error.to_string().contains("name a folder that can be written"), "{error}");
    }
    // A state for a file, and no folder at all.
    let error = Slots::new().store(FILE, StepId(0), [&[1_u8][..]]).unwrap_err();
    assert!(matches!(error, SlotError::NoFolder));
}

#[cfg(unix)]
#[test]
fn a_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("read-only");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).unwrap();
    // Some users may write anywhere.
    if File::create(folder.0.join("probe")).is_err() {
        let error = Slots::in_folder(&folder.0, u64::MAX).unwrap_err();
        assert!(matches!(error, SlotError::Folder { .. }), "{error}");
    }
    let error = Slots::in_folder(Path::new("/proc"), u64::MAX);
    assert!(!cfg!(target_os = "linux") || matches!(error, Err(SlotError::Folder { .. })));
}

#[test]
fn a_state_that_was_changed() {
    let folder = Folder::new("changed");
    let (mut slots, mut file) = folder.slots();
    let state: Vec<u8> = (0..200).collect();
    slots.store(FILE, StepId(3), [&state[..]]).unwrap();
    let mut image = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut image).unwrap();
    assert_eq!(image.len() as u64, slots.file_bytes());
    // One bit anywhere: in the header, in the state, in the checksum.
    for at in 0..image.len() {
        let mut changed = image.clone();
        changed[at] ^= 1 << (at % 8);
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&changed).unwrap();
        let result = read(&mut slots, FILE, 3, 200);
        assert!(matches!(result, Err(SlotError::Corrupt { .. })), "byte {at}");
    }
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(&image).unwrap();
    assert_eq!(read(&mut slots, FILE, 3, 200).unwrap(), state);
    // Cut off anywhere.
    for length in (0..image.len()).rev() {
        file.set_len(length as u64).unwrap();
        let error = read(&mut slots, FILE, 3, 200).unwrap_err();
        assert!(matches!(error, SlotError::Corrupt { what: "it is too short", .. }), "{error}");
    }
}

#[test]
fn states_of_another_run() {
    let folder = Folder::new("another");
    let (mut first, _) = folder.slots();
    first.store(FILE, StepId(3), [&[1_u8; 50][..]]).unwrap();
    // The same slot and step, in the same place of the same file.
    let (mut second, _) = folder.slots();
    assert!(matches!(read(&mut second, FILE, 3, 50), Err(SlotError::Missing { .. })));
    second.store(FILE, StepId(3), [&[2_u8; 50][..]]).unwrap();
    let error = read(&mut first, FILE, 3, 50).unwrap_err();
    assert!(matches!(error, SlotError::Corrupt { what: "it holds something else", .. }), "{error}");
    assert_eq!(read(&mut second, FILE, 3, 50).unwrap(), [2; 50]);
}

#[test]
fn a_limit() {
    let folder = Folder::new("limit");
    let mut slots = Slots::in_folder(&folder.0, 500).unwrap();
    let state = [1_u8; 200];
    slots.store(SlotId::Disk(0), StepId(0), [&state[..]]).unwrap();
    slots.store(SlotId::Disk(1), StepId(1), [&state[..]]).unwrap();
    let error = slots.store(SlotId::Disk(2), StepId(2), [&state[..]]).unwrap_err();
    assert!(matches!(error, SlotError::Full { most: 500, .. }), "{error}");
    // What was there is still there, and room that is given back is used.
    assert_eq!(read(&mut slots, SlotId::Disk(1), 1, 200).unwrap(), state);
    slots.drop_slot(SlotId::Disk(0));
    slots.store(SlotId::Disk(2), StepId(2), [&state[..]]).unwrap();
    assert_eq!(read(&mut slots, SlotId::Disk(2), 2, 200).unwrap(), state);
}

/// Steps that double a number, with states that are padded.
struct Doubling {
    state: [u8; 3000],
    slots: Slots,
    cotangent: u64,
    ends: Option<u64>,
}

impl Doubling {
    fn new(slots: Slots) -> Self {
        let mut state = [0; 3000];
        state[0] = 1;
        Self { state, slots, cotangent: 0, ends: None }
    }
}

impl TimeLoop for Doubling {
    type Error = SlotError;

    fn advance(&mut self, from: StepId, to: StepId) -> Result<Option<StepId>, SlotError> {
        for i in from.0..to.0 {
            self.state[0] = self.state[0].wrapping_mul(3);
            if self.ends == Some(i + 1) {
                return Ok(Some(StepId(i + 1)));
            }
        }
        Ok(None)
    }

    fn joint(&mut self, from: StepId, to: StepId) -> Result<(), SlotError> {
        for i in (from.0..to.0).rev() {
            self.cotangent = self.cotangent.wrapping_mul(31) ^ u64::from(self.state[0]) ^ i;
        }
        Ok(())
    }

    fn store(&mut self, slot: SlotId, step: StepId) -> Result<(), SlotError> {
        self.slots.store(slot, step, [&self.state[..10], &self.state[10..]])
    }

    fn restore(&mut self, slot: SlotId, step: StepId) -> Result<(), SlotError> {
        let (front, back) = self.state.split_at_mut(10);
        self.slots.restore(slot, step, [front, back])
    }

    fn drop_slot(&mut self, slot: SlotId) {
        self.slots.drop_slot(slot);
    }

    fn bytes(&self) -> u64 {
        self.slots.bytes()
    }
}

const FILES: Method = Method::TwoLevels { block: 1, period: 7, slots: 2 };

fn run_both_halves(steps: &mut Doubling, schedule: &mut Schedule) -> Result<Stats, RunError<SlotError>> {
    let mut stats = Stats::default();
    forward(schedule, &mut stats, steps)?;
    reverse(schedule, &mut stats, steps)?;
    Ok(stats)
}

#[test]
fn a_run_with_files() {
    let folder = Folder::new("run");
    let mut first = Doubling::new(Slots::in_folder(&folder.0, u64::MAX).unwrap());
    let stats = run_both_halves(&mut first, &mut Schedule::new(FILES, Some(50), Reversal::Joint).unwrap()).unwrap();
    let mut second = Doubling::new(Slots::new());
    let revolve = Method::Revolve { block: 1, slots: 4 };
    run_both_halves(&mut second, &mut Schedule::new(revolve, Some(50), Reversal::Joint).unwrap()).unwrap();
    assert_eq!(first.cotangent, second.cotangent);
    // The last step is a stretch of its own, and needs no file.
    assert_eq!((stats.disk_writes, stats.max_files, stats.max_bytes), (7, 7, 2 * 3000));
    assert_eq!((first.slots.bytes(), first.slots.file_bytes()), (0, 0));
    // The number of steps turns out.
    let mut third = Doubling::new(Slots::in_folder(&folder.0, u64::MAX).unwrap());
    third.ends = Some(50);
    run_both_halves(&mut third, &mut Schedule::new(FILES, None, Reversal::Joint).unwrap()).unwrap();
    assert_eq!(third.cotangent, first.cotangent);
}

/// `/dev/full` takes nothing.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk() {
    let full = OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    let mut steps = Doubling::new(Slots::in_file(full, u64::MAX));
    let error = run_both_halves(&mut steps, &mut Schedule::new(FILES, Some(50), Reversal::Joint).unwrap()).unwrap_err();
    let RunError::Loop(SlotError::Write { step, source }) = &error else { panic!("{error}") };
    assert_eq!((*step, source.kind()), (StepId(0), std::io::ErrorKind::StorageFull));
    // The next run has nothing to do with it.
    let mut next = Doubling::new(Slots::new());
    let revolve = Method::Revolve { block: 1, slots: 4 };
    run_both_halves(&mut next, &mut Schedule::new(revolve, Some(50), Reversal::Joint).unwrap()).unwrap();
}

/// In the process that is to be killed: keep states, say so, and wait.
#[test]
fn child_that_is_killed() {
    let Some(folder) = std::env::var_os("BROLGA_TEST_FOLDER") else { return };
    let mut slots = Slots::in_folder(Path::new(&folder), u64::MAX).unwrap();
    (0..3).for_each(|n| slots.store(SlotId::Disk(n), StepId(u64::from(n)), [&[9_u8; 5000][..]]).unwrap());
    println!("\nkept");
    std::io::stdout().flush().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(600));
}

#[test]
fn a_killed_process_leaves_nothing() {
    let folder = Folder::new("killed");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["slots::child_that_is_killed", "--exact", "--nocapture"])
        .env("BROLGA_TEST_FOLDER", &folder.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|l| l == "kept"));
    child.kill().unwrap();
    child.wait().unwrap();
    if cfg!(unix) {
        assert!(folder.names().is_empty(), "{:?}", folder.names());
    }
    // Where a name cannot be removed while the file is open, files stay. None of them is opened.
    let pid = std::process::id();
    let stale: Vec<PathBuf> = (0..64).map(|n| folder.0.join(format!("brolga-states-{pid}-{n}"))).collect();
    stale.iter().for_each(|name| fs::write(name, "of another run").unwrap());
    let mut slots = Slots::in_folder(&folder.0, u64::MAX).unwrap();
    slots.store(FILE, StepId(0), [&[4_u8; 100][..]]).unwrap();
    assert_eq!(read(&mut slots, FILE, 0, 100).unwrap(), [4; 100]);
    assert!(stale.iter().all(|name| fs::read(name).unwrap() == b"of another run"));
}
