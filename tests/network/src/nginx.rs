//! [`Nginx`]: a real reverse proxy, as the system's package has it, with TLS by an authority of our own.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

/// How often other ports are tried when somebody took one in between.
const TRIES: usize = 5;
/// How often is looked whether it listens, before it is given up.
const LOOKS: usize = 1000;

/// A certificate authority, and a server's certificate of it for this machine.
#[derive(Debug)]
pub struct Authority {
    /// What a client trusts.
    pub pem: String,
    certificate_pem: String,
    key_pem: String,
}

/// One way through the proxy, on a port of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// The port, once it runs.
    pub port: u16,
    /// Whether it collects a reply before it sends it on.
    pub buffers: bool,
    /// Whether it speaks HTTP/2.
    pub http2: bool,
    /// Whether it compresses for whoever asks for it.
    pub compresses: bool,
    /// Whether its server is one that is not there.
    pub leads_nowhere: bool,
}

/// A running nginx in one process. It is ended when this is dropped.
#[derive(Debug)]
pub struct Nginx {
    /// The ways through it.
    pub sites: Vec<Site>,
    _child: Child,
    _folder: TempDir,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    ///
    /// When there are no keys to be had.
    pub fn new() -> anyhow::Result<Self> {
        let mut params = CertificateParams::new([])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate()?;
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate_pem = CertificateParams::new(names)?.signed_by(&key, &issuer)?.pem();
        Ok(Self { pem, certificate_pem, key_pem: key.serialize_pem() })
    }
}

impl Site {
    /// Every combination, and a way that leads nowhere.
    fn all() -> Vec<Self> {
        let mut sites = Vec::new();
        for buffers in [true, false] {
            for http2 in [false, true] {
                for compresses in [false, true] {
                    sites.push(Self { port: 0, buffers, http2, compresses, leads_nowhere: false });
                }
            }
        }
        sites.push(Self { port: 0, buffers: true, http2: true, compresses: true, leads_nowhere: true });
        sites
    }

    /// What it is, in words.
    pub fn name(&self) -> String {
        let buffers = if self.buffers { "buffering" } else { "streaming" };
        let protocol = if self.http2 { "h2" } else { "HTTP/1.1" };
        let gzip = if self.compresses { "on" } else { "off" };
        let nowhere = if self.leads_nowhere { ", server gone" } else { "" };
        format!("nginx, {buffers}, {protocol}, gzip {gzip}{nowhere}")
    }

    /// The protocol, as nginx names it.
    pub fn protocol(&self) -> &'static str {
        if self.http2 { "HTTP/2.0" } else { "HTTP/1.1" }
    }

    fn config(&self) -> String {
        let on = |is_on: bool| if is_on { "on" } else { "off" };
        format!(
            "  server {{\n    listen 127.0.0.1:{} ssl{};\n    location / {{\n      proxy_pass http://{};\n      \
             proxy_buffering {};\n      gzip {};\n    }}\n  }}\n",
            self.port,
            if self.http2 { " http2" } else { "" },
            if self.leads_nowhere { "nowhere" } else { "origin" },
            on(self.buffers),
            on(self.compresses),
        )
    }
}

impl Nginx {
    /// Starts the program in front of a server, and of a port at which nobody listens.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn start(
        program: &Path,
        authority: &Authority,
        server: u16,
        nowhere: u16,
    ) -> anyhow::Result<Self> {
        for _ in 0..TRIES {
            let folder = tempfile::tempdir()?;
            let mut sites = Site::all();
            let mut taken = Vec::new();
            for site in &mut sites {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
                site.port = listener.local_addr()?.port();
                taken.push(listener);
            }
            drop(taken);
            write_config(folder.path(), authority, &sites, server, nowhere)?;
            let mut child = Command::new(program)
                .arg("-p")
                .arg(folder.path())
                .args(["-e", "error.log", "-c", "nginx.conf"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .with_context(|| program.display().to_string())?;
            if listens(&mut child, &sites).await? {
                return Ok(Self { sites, _child: child, _folder: folder });
            }
            let log = fs::read_to_string(folder.path().join("error.log")).unwrap_or_default();
            if !log.contains("Address already in use") {
                bail!("nginx does not start: {log}");
            }
        }
        bail!("nginx finds its ports taken again and again")
    }
}

async fn listens(child: &mut Child, sites: &[Site]) -> anyhow::Result<bool> {
    let Some(last) = sites.last() else { return Ok(true) };
    for _ in 0..LOOKS {
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        if TcpStream::connect((Ipv4Addr::LOCALHOST, last.port)).await.is_ok() {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(false)
}

fn write_config(
    folder: &Path,
    authority: &Authority,
    sites: &[Site],
    server: u16,
    nowhere: u16,
) -> anyhow::Result<()> {
    fs::write(folder.join("certificate.pem"), &authority.certificate_pem)?;
    fs::write(folder.join("key.pem"), &authority.key_pem)?;
    let sites: String = sites.iter().map(Site::config).collect();
    // One process, which can be ended by its id; nothing is written outside its folder.
    let config = format!(
        "daemon off;
master_process off;
pid nginx.pid;
error_log error.log warn;
events {{ worker_connections 2048; }}
http {{
  access_log off;
  client_body_temp_path body;
  proxy_temp_path proxy;
  fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi;
  scgi_temp_path scgi;
  client_max_body_size 32m;
  ssl_certificate certificate.pem;
  ssl_certificate_key key.pem;
  gzip_types *;
  gzip_proxied any;
  gzip_min_length 1;
  proxy_http_version 1.1;
  proxy_set_header Connection \"\";
  add_header x-protocol $server_protocol always;
  upstream origin {{ server 127.0.0.1:{server}; keepalive 16; }}
  upstream nowhere {{ server 127.0.0.1:{nowhere}; }}
{sites}}}
"
    );
    fs::write(folder.join("nginx.conf"), config)?;
    Ok(())
}
