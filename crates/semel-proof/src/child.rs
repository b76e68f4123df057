//! A child process whose history is read while it runs, and that is then killed.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a child may take until its first answer, however loaded the machine is.
const START_MAX: Duration = Duration::from_secs(60);

/// A running child.
pub struct Running {
    child: Child,
    reader: Option<JoinHandle<io::Result<Vec<u8>>>>,
    first_ok: Receiver<()>,
}

/// A child that is gone.
pub struct Gone {
    /// What it wrote.
    pub history: String,
    /// How it ended.
    pub status: ExitStatus,
}

impl Running {
    /// Starts a child and reads what it writes, so that it is never held up by a full pipe.
    pub fn spawn(mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut pipe = child.stdout.take().ok_or_else(|| io::Error::other("the child has no pipe"))?;
        let (answered, first_ok) = sync_channel(1);
        let reader = std::thread::spawn(move || {
            let (mut history, mut chunk) = (Vec::new(), vec![0; 1 << 16]);
            let mut answered = Some(answered);
            loop {
                let read = match pipe.read(&mut chunk) {
                    Ok(0) => return Ok(history),
                    Ok(read) => read,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    Err(e) => return Err(e),
                };
                history.extend_from_slice(&chunk[..read]);
                if answered.is_some()
                    && history.windows(3).any(|w| w == b"\n+ ")
                    && let Some(answered) = answered.take()
                {
                    // If nobody waits for it, nobody needs to know.
                    answered.try_send(()).unwrap_or_default();
                }
            }
        });
        Ok(Self { child, reader: Some(reader), first_ok })
    }

    /// Waits until the store has answered its first call.
    pub fn first_ok(&self) -> io::Result<()> {
        self.first_ok.recv_timeout(START_MAX).map_err(|e| io::Error::other(format!("no first answer: {e}")))
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Lets the child work for a while, then kills it. A child that ended by itself is reported by its status.
    pub fn kill_after(mut self, delay: Duration) -> io::Result<Gone> {
        let (_never, timer) = sync_channel::<()>(1);
        // Nothing is awaited here: the random moment of the kill is the fault that is being injected.
        if timer.recv_timeout(delay) != Err(RecvTimeoutError::Timeout) {
            return Err(io::Error::other("a channel that nobody writes to was written to"));
        }
        self.child.kill()?;
        self.join()
    }

    /// Waits for a child that ends by itself, at most for `limit`; then it is killed.
    pub fn wait(mut self, limit: Duration) -> io::Result<Gone> {
        let (ended, watch) = sync_channel(1);
        let reader = self.reader.take();
        let waiter = std::thread::spawn(move || {
            let history = reader.map(|reader| reader.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
            drop(ended);
            history.unwrap_or_else(|| Ok(Vec::new()))
        });
        // The pipe ends when the process does.
        if watch.recv_timeout(limit) == Err::<(), _>(RecvTimeoutError::Timeout) {
            self.child.kill()?;
        }
        self.reader = Some(waiter);
        self.join()
    }

    fn join(mut self) -> io::Result<Gone> {
        let status = self.child.wait()?;
        let reader = self.reader.take().ok_or_else(|| io::Error::other("the history was already taken"))?;
        let history = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let history = String::from_utf8(history).map_err(io::Error::other)?;
        Ok(Gone { history, status })
    }
}

impl Drop for Running {
    /// A test that failed must not leave a process behind that works at full speed.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl Gone {
    /// Whether it ran until it was killed.
    pub fn was_killed(&self) -> bool {
        self.status.signal() == Some(9)
    }
}
