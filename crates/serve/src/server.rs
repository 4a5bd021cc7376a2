//! The server: an address, and a thread for each connection.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use tare_store::Query;

use crate::access::{Access, Token};
use crate::error::ServeError;
use crate::job::JobSlots;
use crate::request::encode;
use crate::response::{HttpResponse, Refusal};
use crate::route;
use crate::source::Source;

/// Most connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// Where the page is served, and to whom.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The address; port 0 for any free one.
    pub address: SocketAddr,
    /// The secret that clients need.
    pub token: Token,
    /// Further names that clients may call the server, with or without a port.
    pub names: Vec<String>,
    /// The samples that the link shows first.
    pub first: Query,
}

/// A server that was bound to its address.
pub struct Server {
    listener: TcpListener,
    state: Arc<ServerState>,
    view: String,
}

/// What the threads of connections use.
struct ServerState {
    access: Access,
    source: Source,
    slots: JobSlots,
    connections: AtomicUsize,
}

/// A connection, which is counted while it lives.
struct Connection(Arc<ServerState>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// Fails if the address can't be listened on.
    pub fn bind(options: ServeOptions, source: Source) -> Result<Self, ServeError> {
        let ServeOptions { address, token, names, first } = options;
        let failed = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let access = Access::new(listener.local_addr().map_err(failed)?, &names, token);
        let slots = JobSlots::default();
        let connections = AtomicUsize::new(0);
        let time = |name: &'static str, time_us: Option<i64>| Some((name, time_us?.to_string()));
        let times = [time("since", first.since_us), time("until", first.until_us)];
        let conditions = first.filters.iter().map(|filter| ("where", filter.to_string()));
        let view = times.into_iter().flatten().chain(conditions);
        let view = view.map(|(name, value)| format!("&{name}={}", encode(&value))).collect();
        let state = Arc::new(ServerState { access, source, slots, connections });
        Ok(Self { listener, state, view })
    }

    /// Returns the link to the page, with the token.
    ///
    /// # Errors
    /// Fails if the kernel doesn't know the address.
    pub fn link(&self) -> Result<String, ServeError> {
        let address = self.listener.local_addr()?;
        let token = self.state.access.token().text();
        Ok(format!("http://{address}/?token={token}{}", self.view))
    }

    /// Answers requests until `end` can be read. Threads of connections may still run then.
    ///
    /// # Errors
    /// Fails if the address can't be listened on any more.
    pub fn run(&self, end: BorrowedFd<'_>) -> Result<(), ServeError> {
        loop {
            let mut waited = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::from_borrowed_fd(end, PollFlags::IN),
            ];
            match poll(&mut waited, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other.map_err(io::Error::from)?,
            };
            if !waited[1].revents().is_empty() {
                return Ok(());
            }
            match self.listener.accept() {
                Ok((stream, _)) => self.begin(stream),
                // The client left, or there are no descriptors until another connection ends.
                Err(_) => std::thread::yield_now(),
            }
        }
    }

    fn begin(&self, mut stream: TcpStream) {
        let before = self.state.connections.fetch_add(1, Ordering::Relaxed);
        let connection = Connection(Arc::clone(&self.state));
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        if before >= MAX_CONNECTIONS {
            let refusal = Refusal::new(503, "503: too many connections\n");
            // The client learns as much from the end of the connection.
            let _ = HttpResponse::refused(refusal).write(&stream);
            return;
        }
        let thread = std::thread::Builder::new().name("connection".to_owned());
        // Without a thread the connection ends here.
        let _ = thread.spawn(move || {
            let ServerState { access, source, slots, .. } = &*connection.0;
            // The client is gone if this fails.
            let _ = route::answer(&mut stream, access, &*source.0, slots);
        });
    }
}
