//! Where the server is and who we are, on the command line of every command that talks to one.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use semel_client::http::Client;

use super::{DEADLINE, Remote, runtime};
use crate::failure::Failure;
use crate::text::printable;

/// The API key, for those who do not want it on a command line that others can read.
const API_KEY: &str = "SEMEL_API_KEY";

/// The server, and how to talk to it. They may stand anywhere behind the name of the command.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server
    #[arg(
        long,
        value_name = "URL",
        env = "SEMEL_SERVER",
        hide_env_values = true,
        default_value = "http://127.0.0.1:7477",
        global = true,
        help_heading = "Server"
    )]
    server: String,
    // Not read by clap: a file that is named here counts more than a variable that was set long ago.
    /// An API key; better in a file, or in SEMEL_API_KEY
    #[arg(long, value_name = "KEY", global = true, conflicts_with = "api_key_file", help_heading = "Server")]
    api_key: Option<String>,
    /// A file with the API key
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    api_key_file: Option<PathBuf>,
    /// A certificate authority to trust besides the system's, as a PEM file
    #[arg(long, value_name = "FILE", global = true, help_heading = "Server")]
    ca_cert: Option<PathBuf>,
    /// Print the server's JSON as it is
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl ServerArgs {
    /// The server. Nothing is sent yet.
    pub(crate) fn remote(&self) -> Result<Remote, Failure> {
        let mut builder = Client::builder(&self.server).deadline(DEADLINE).unless_nobody_listens();
        if let Some(key) = self.key()? {
            builder = builder.api_key(key);
        }
        if let Some(file) = &self.ca_cert {
            if !self.server.starts_with("https://") {
                return Err(Failure::Usage("--ca-cert is for a --server that begins with https://".into()));
            }
            builder = builder.authorities(read(file, "--ca-cert")?);
        }
        let client = builder.build().map_err(|error| Failure::Usage(printable(&error.to_string())))?;
        Ok(Remote { client, server: printable(&self.server) })
    }

    /// Has a talk with the server.
    pub(crate) fn talk<T>(
        &self,
        talk: impl AsyncFnOnce(&Remote) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let remote = self.remote()?;
        runtime()?.block_on(talk(&remote))
    }

    fn key(&self) -> Result<Option<String>, Failure> {
        if let Some(key) = &self.api_key {
            return Ok(Some(key.clone()));
        }
        let Some(file) = &self.api_key_file else {
            return Ok(env::var(API_KEY).ok().filter(|key| !key.is_empty()));
        };
        let text = String::from_utf8_lossy(&read(file, "--api-key-file")?).trim().to_owned();
        if text.is_empty() {
            return Err(Failure::Usage(format!("--api-key-file: {} is empty", file.display())));
        }
        Ok(Some(text))
    }
}

fn read(file: &Path, option: &str) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(Failure::io(format!("read {option} {}", file.display())))
}
