//! Stores in S3-compatible buckets.
//!
//! A writer writes into a local folder, the spool, from which segments are uploaded. A reader
//! downloads the files that a query needs into a local folder, the mirror. Files never change, so
//! a mirror only gets what it lacks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig, WriteMultipart,
};

use crate::error::StoreError;
use crate::filter::Query;
use crate::folder::{Folder, file_error};
use crate::listing::list;
use crate::name::{FileKind, FileName};
use crate::publication::{FilePaths, ORDER};
use crate::schema::{FRAMES, SAMPLES, SEGMENTS, TableDefinition};
use crate::store::{Store, StoreOptions};

/// Bytes of a file that are sent together. Larger files are sent in parts.
pub(crate) const PART_BYTES: usize = 8 << 20;

/// How often files are listed if some are compacted meanwhile.
const ATTEMPTS: usize = 8;

/// How a bucket is reached.
#[derive(Clone, Debug)]
pub struct BucketOptions {
    /// `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    pub url: String,
    /// The server's address, if it isn't Amazon's. Only `https` unless `allow_http`.
    pub endpoint: Option<String>,
    /// The region; `us-east-1` if there is no other.
    pub region: Option<String>,
    /// Key and secret; the machine's role if there are none.
    pub credentials: Option<BucketCredentials>,
    /// Accepts an endpoint without TLS.
    pub allow_http: bool,
    /// Longest time for a request with its repetitions.
    pub timeout: Duration,
}

/// A key of a bucket.
#[derive(Clone)]
pub struct BucketCredentials {
    /// The key's name.
    pub key_id: String,
    /// The key's secret.
    pub secret: String,
    /// The token of temporary keys.
    pub token: Option<String>,
}

impl std::fmt::Debug for BucketCredentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BucketCredentials").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

/// What was sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Files.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
}

/// A store in a bucket.
pub struct Bucket {
    objects: Arc<dyn ObjectStore>,
    prefix: String,
    runtime: tokio::runtime::Runtime,
}

/// A file of a table in a bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BucketFile {
    name: FileName,
    table: &'static str,
}

impl Bucket {
    /// Prepares access to a bucket. Doesn't connect yet.
    ///
    /// # Errors
    /// Fails if the URL isn't valid, or the machine's certificates can't be read.
    pub fn open(options: &BucketOptions) -> Result<Self, StoreError> {
        let rest = options.url.strip_prefix("s3://").unwrap_or_default();
        let mut parts = rest.splitn(2, '/');
        let bucket = parts.next().filter(|bucket| !bucket.is_empty());
        let bucket = bucket.ok_or_else(|| StoreError::Url(options.url.clone()))?;
        let prefix = parts.next().unwrap_or_default();
        // Fails if the program has chosen a provider, which then stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let retry = RetryConfig { retry_timeout: options.timeout, ..RetryConfig::default() };
        let client = ClientOptions::new()
            .with_timeout(options.timeout)
            .with_connect_timeout(options.timeout)
            .with_allow_http(options.allow_http);
        let mut builder = AmazonS3Builder::new()
            .with_client_options(client)
            .with_retry(retry)
            .with_bucket_name(bucket)
            .with_region(options.region.as_deref().unwrap_or("us-east-1"));
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(credentials) = &options.credentials {
            builder = builder
                .with_access_key_id(&credentials.key_id)
                .with_secret_access_key(&credentials.secret);
            if let Some(token) = &credentials.token {
                builder = builder.with_token(token);
            }
        }
        let objects = builder.build().map_err(bucket_error(&options.url))?;
        Self::from_objects(Arc::new(objects), prefix)
    }

    pub(crate) fn from_objects(
        objects: Arc<dyn ObjectStore>,
        prefix: &str,
    ) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(file_error(Path::new("tokio")))?;
        Ok(Self { objects, prefix: prefix.trim_matches('/').to_owned(), runtime })
    }

    pub(crate) fn object(&self, below: &str) -> ObjectPath {
        ObjectPath::from(format!("{}/{below}", self.prefix))
    }

    fn file_object(&self, name: &FileName, table: &TableDefinition) -> ObjectPath {
        self.object(&format!("{}/{name}", name.folder(table)))
    }

    /// Sends the spool's segments, oldest first, and removes each from the spool once the bucket
    /// has all of it. Then the bucket has each of these segments whole; a segment that is being
    /// sent when the program dies is sent again.
    ///
    /// During an outage call [`Store::enforce`] on the spool: it drops the oldest windows beyond
    /// the limits, and counts them.
    ///
    /// # Errors
    /// Fails if the bucket can't be reached, or a file can't be read or removed. Segments that
    /// weren't sent stay in the spool.
    pub fn upload(&self, spool: &Store) -> Result<Transfer, StoreError> {
        let folder = spool.folder();
        let _lock = folder.lock_rewriting()?;
        let mut transfer = Transfer::default();
        let mut folders = Vec::new();
        // The file of segments is the last to be published.
        for file in list(folder, &SEGMENTS)?.into_iter().filter(|file| !file.is_temporary) {
            self.send(folder, &file.name, &mut transfer)?;
            // Frames are removed last: recovery removes frames that are alone.
            for table in [&SAMPLES, &SEGMENTS, &FRAMES] {
                let paths = FilePaths::new(folder, &file.name, table);
                folder.remove_file(&paths.last)?;
                folders.push(paths.folder);
            }
        }
        spool.remove_empty_folders(folders)?;
        Ok(transfer)
    }

    /// Sends a segment's files in the order in which they are published.
    fn send(
        &self,
        folder: &Folder,
        name: &FileName,
        transfer: &mut Transfer,
    ) -> Result<(), StoreError> {
        for table in ORDER {
            let path = FilePaths::new(folder, name, table).last;
            // A gap has no samples and frames.
            if name.kind != FileKind::Gap || path.exists() {
                transfer.bytes += self.put(&path, &self.file_object(name, table))?;
                transfer.files += 1;
            }
        }
        Ok(())
    }

    pub(crate) fn put(&self, path: &Path, object: &ObjectPath) -> Result<u64, StoreError> {
        let mut file = File::open(path).map_err(file_error(path))?;
        let length = file.metadata().map_err(file_error(path))?.len();
        let mut part = Vec::new();
        let mut read = |part: &mut Vec<u8>| {
            part.clear();
            (&mut file).take(PART_BYTES as u64).read_to_end(part).map_err(file_error(path))
        };
        read(&mut part)?;
        self.runtime.block_on(async {
            let failed = bucket_error(object.as_ref());
            if length <= PART_BYTES as u64 {
                let sent = self.objects.put(object, PutPayload::from(part)).await;
                return sent.map(|_| ()).map_err(failed);
            }
            let upload = self.objects.put_multipart(object).await;
            let mut upload = WriteMultipart::new(upload.map_err(bucket_error(object.as_ref()))?);
            while !part.is_empty() {
                upload.write(&part);
                let sent = upload.wait_for_capacity(1).await;
                let sent = sent.map_err(bucket_error(object.as_ref()));
                if let Err(error) = sent.and_then(|()| read(&mut part)) {
                    // Otherwise the server keeps the parts. The first error says more.
                    let _ = upload.abort().await;
                    return Err(error);
                }
            }
            upload.finish().await.map(|_| ()).map_err(failed)
        })?;
        Ok(length)
    }

    /// Returns the bucket's files of a table that may have rows of the query's times.
    fn list(
        &self,
        table: &'static TableDefinition,
        query: &Query,
    ) -> Result<Vec<FileName>, StoreError> {
        let prefix = self.object(table.name);
        let objects = self.runtime.block_on(async {
            let objects = self.objects.list(Some(&prefix));
            objects.try_collect::<Vec<_>>().await.map_err(bucket_error(prefix.as_ref()))
        })?;
        let mut names = Vec::new();
        for object in objects {
            let name = object.location.filename().and_then(FileName::parse);
            names.extend(name.filter(|name| {
                self.file_object(name, table) == object.location && overlaps(name, query)
            }));
        }
        Ok(names)
    }

    /// Makes a local folder have the bucket's files of the query's times, to be read with
    /// [`StoreReader`](crate::StoreReader). Files that the bucket has no longer are removed, so
    /// a folder can't be the mirror of two buckets.
    ///
    /// # Errors
    /// Fails if the bucket can't be reached, or a file can't be written.
    pub fn download(&self, mirror: &Path, query: &Query) -> Result<Transfer, StoreError> {
        let store = Store::open(mirror, StoreOptions::default())?;
        let folder = store.folder();
        let _lock = folder.lock_rewriting()?;
        let mut transfer = Transfer::default();
        for table in ORDER {
            let mut attempts = 0;
            // A file that was compacted since it was listed is in one that wasn't listed.
            while !self.download_table(folder, table, query, &mut transfer)? {
                attempts += 1;
                if attempts == ATTEMPTS {
                    return Err(StoreError::Locked(PathBuf::from(&self.prefix)));
                }
            }
        }
        Ok(transfer)
    }

    /// Returns whether all files that were listed could be downloaded.
    fn download_table(
        &self,
        folder: &Folder,
        table: &'static TableDefinition,
        query: &Query,
        transfer: &mut Transfer,
    ) -> Result<bool, StoreError> {
        let wanted: BTreeSet<FileName> = self.list(table, query)?.into_iter().collect();
        let own = list(folder, table)?.into_iter().filter(|file| !file.is_temporary);
        let own: BTreeMap<FileName, PathBuf> = own.map(|file| (file.name, file.path)).collect();
        for name in wanted.iter().filter(|name| !own.contains_key(name)) {
            let Some(bytes) = self.get(folder, name, table)? else { return Ok(false) };
            transfer.bytes += bytes;
            transfer.files += 1;
        }
        for (name, path) in &own {
            if overlaps(name, query) && !wanted.contains(name) {
                folder.remove_file(path)?;
            }
        }
        Ok(true)
    }

    /// Downloads a file and returns its length; `None` if the bucket has it no longer.
    fn get(
        &self,
        folder: &Folder,
        name: &FileName,
        table: &TableDefinition,
    ) -> Result<Option<u64>, StoreError> {
        let paths = FilePaths::new(folder, name, table);
        let object = self.file_object(name, table);
        folder.create_folder(&paths.folder)?;
        let mut file = folder.create_file(&paths.temporary)?;
        let received = self.get_object(&object, &paths.temporary, &mut file);
        match received {
            Ok(Some(bytes)) => {
                folder.rename(&paths.temporary, &paths.last)?;
                Ok(Some(bytes))
            }
            other => {
                fs::remove_file(&paths.temporary).map_err(file_error(&paths.temporary))?;
                other
            }
        }
    }

    pub(crate) fn get_object(
        &self,
        object: &ObjectPath,
        path: &Path,
        file: &mut File,
    ) -> Result<Option<u64>, StoreError> {
        self.runtime.block_on(async {
            let failed = || bucket_error(object.as_ref());
            let mut bytes = 0;
            let mut chunks = match self.objects.get(object).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                other => other.map_err(failed())?.into_stream(),
            };
            while let Some(chunk) = chunks.try_next().await.map_err(failed())? {
                file.write_all(&chunk).map_err(file_error(path))?;
                bytes += chunk.len() as u64;
            }
            Ok(Some(bytes))
        })
    }

    /// Compacts the bucket's segments of the query's times, in a local folder. Only one program may
    /// compact a bucket.
    ///
    /// # Errors
    /// As [`Bucket::download`] and [`Store::compact`].
    pub fn compact(
        &self,
        mirror: &Path,
        query: &Query,
        now_us: i64,
    ) -> Result<crate::Compaction, StoreError> {
        self.download(mirror, query)?;
        let store = Store::open(mirror, StoreOptions::default())?;
        store.recover()?;
        let before = self.files(store.folder())?;
        let compaction = store.compact(now_us)?;
        let after = self.files(store.folder())?;
        let mut transfer = Transfer::default();
        let added: BTreeSet<&FileName> = after.difference(&before).map(|file| &file.name).collect();
        for name in added {
            self.send(store.folder(), name, &mut transfer)?;
        }
        for table in [&SAMPLES, &SEGMENTS, &FRAMES] {
            let removed = before.difference(&after).filter(|file| file.table == table.name);
            for file in removed {
                let object = self.file_object(&file.name, table);
                match self.runtime.block_on(self.objects.delete(&object)) {
                    Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                    Err(error) => return Err(bucket_error(object.as_ref())(error)),
                }
            }
        }
        Ok(compaction)
    }

    fn files(&self, folder: &Folder) -> Result<BTreeSet<BucketFile>, StoreError> {
        let mut files = BTreeSet::new();
        for table in ORDER {
            for file in list(folder, table)?.into_iter().filter(|file| !file.is_temporary) {
                files.insert(BucketFile { name: file.name, table: table.name });
            }
        }
        Ok(files)
    }
}

fn overlaps(name: &FileName, query: &Query) -> bool {
    query.until_us.is_none_or(|until| name.start_us < until)
        && query.since_us.is_none_or(|since| name.end_us > since)
}

fn bucket_error(object: &str) -> impl FnOnce(object_store::Error) -> StoreError {
    let object = object.to_owned();
    |source| StoreError::Bucket { object, source: Box::new(source) }
}
