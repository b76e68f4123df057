//! Disks to break: ext4 in a file whose power can be cut, and a small one that fills up. Both need root.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `_IOR('X', 125, __u32)`: stop the file system at once.
const EXT4_IOC_SHUTDOWN: u32 = 0x8004_587d;
/// Do not even write the journal out: what has not been synced is gone, as in a power cut.
const EXT4_GOING_FLAGS_NOLOGFLUSH: u32 = 2;
/// Where Debian keeps `mkfs.ext4`, which only root's PATH has.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A mounted disk. It is unmounted when it goes out of scope, whatever became of the test.
pub struct Disk {
    mount: PathBuf,
    image: Option<PathBuf>,
    mounted: bool,
}

impl Disk {
    /// An ext4 of some megabytes in an image file, mounted beside it. The error says what this machine lacks.
    pub fn ext4(home: &Path, megabytes: u64) -> io::Result<Self> {
        let (image, mount) = (home.join("disk.img"), home.join("disk"));
        File::create(&image)?.set_len(megabytes << 20)?;
        fs::create_dir(&mount)?;
        // A journal is what a power cut is played back from; lazy initialisation would go on writing in the background.
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"])
            .arg(&image))?;
        let mut disk = Self { mount, image: Some(image), mounted: false };
        disk.mount()?;
        Ok(disk)
    }

    /// A file system in memory that is full after some megabytes.
    pub fn small(home: &Path, megabytes: u64) -> io::Result<Self> {
        let mount = home.join("small");
        fs::create_dir(&mount)?;
        let size = format!("size={megabytes}m");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&mount))?;
        Ok(Self { mount, image: None, mounted: true })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// From now on nothing on it can be changed.
    pub fn make_read_only(&self) -> io::Result<()> {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(&self.mount))
    }

    /// Cuts the power and turns it on again: everything that was not synced is gone. Nobody may have a file open.
    pub fn power_cycle(&mut self) -> io::Result<()> {
        self.cut()?;
        self.unmount()?;
        self.mount()
    }

    /// Cuts the power: nothing reaches the disk any more, whoever has a file open.
    #[expect(unsafe_code, reason = "there is no safe form of an ioctl that takes a number by reference")]
    pub fn cut(&self) -> io::Result<()> {
        let root = File::open(&self.mount)?;
        // SAFETY: the opcode takes a pointer to a 32-bit number, which `Setter` passes and the kernel only reads; it keeps
        // no reference to it, and no memory of this process depends on the file system that it stops.
        unsafe {
            let flags = rustix::ioctl::Setter::<EXT4_IOC_SHUTDOWN, u32>::new(EXT4_GOING_FLAGS_NOLOGFLUSH);
            rustix::ioctl::ioctl(&root, flags)?;
        }
        Ok(())
    }

    fn mount(&mut self) -> io::Result<()> {
        let Some(image) = &self.image else { return Ok(()) };
        // The loop device is let go of by itself when the disk is unmounted.
        run(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).arg(image).arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> io::Result<()> {
        run(Command::new("umount").arg(&self.mount))?;
        self.mounted = false;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A lazy unmount as the last resort: a process that still has a file open must not leave the disk behind.
        if self.mounted
            && self.unmount().is_err()
            && let Err(e) = run(Command::new("umount").arg("--lazy").arg(&self.mount))
        {
            eprintln!("{} could not be unmounted: {e}", self.mount.display());
        }
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let output =
        command.env("PATH", PATH).output().map_err(|e| io::Error::other(format!("{command:?}: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}", said.trim())))
}

/// Says for everyone to see that something could not be checked on this machine. A skip is not a pass.
pub fn skip(what: &str, why: &dyn std::fmt::Display) {
    let line = format!("SKIPPED: {what}: {why}\n");
    eprint!("{line}");
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let noted = OpenOptions::new().create(true).append(true).open(target.join("semel-skips.txt"));
    if let Err(e) = noted.and_then(|mut file| file.write_all(line.as_bytes())) {
        eprintln!("the skip could not be noted in {}: {e}", target.display());
    }
}
