//! Passwords: other users of the machine reach the loopback too.

use std::{fs::File, io::Read, path::Path};

use crate::Error;

/// A new one, of hexadecimal digits, which need quotes in no configuration.
pub(crate) fn random() -> Result<String, Error> {
    let mut bytes = [0_u8; 16];
    let source = Path::new("/dev/urandom");
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::path("read", source))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
