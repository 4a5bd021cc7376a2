//! Objects of a bucket: sent, listed, received, deleted.

use std::fs::File;
use std::future::Future;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::TryStreamExt;
use futures_util::future::{AbortHandle, abortable};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as ObjectPath;
use object_store::{
    ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig, WriteMultipart,
};

use crate::bucket_options::BucketOptions;
use crate::error::StoreError;
use crate::folder::file_error;
use crate::name::FileName;
use crate::schema::{SEGMENTS, TableDefinition};

/// Bytes of a file that are sent together. Larger files are sent in parts.
pub(crate) const PART_BYTES: usize = 8 << 20;

/// What was sent or received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Files.
    pub files: u64,
    /// Their length together.
    pub bytes: u64,
}

/// Ends what a bucket does, from another thread.
#[derive(Clone, Debug, Default)]
pub struct BucketStop(Arc<Mutex<StopState>>);

#[derive(Debug, Default)]
struct StopState {
    is_stopped: bool,
    /// The request under way.
    request: Option<AbortHandle>,
}

impl BucketStop {
    /// Ends the request under way, and refuses further ones.
    pub fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_stopped = true;
        if let Some(request) = state.request.take() {
            request.abort();
        }
    }

    fn begin(&self, request: AbortHandle) -> Result<(), StoreError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped {
            return Err(StoreError::Stopped);
        }
        state.request = Some(request);
        Ok(())
    }
}

/// A store in an S3-compatible bucket.
///
/// A segment is in the bucket once its file of segments is, which is sent last and deleted last.
pub struct Bucket {
    objects: Arc<dyn ObjectStore>,
    /// `s3://BUCKET`, for messages.
    name: String,
    prefix: String,
    /// `None` once it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
    stop: BucketStop,
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // A thread that resolves a name may take half a minute.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
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
        let retry = RetryConfig {
            retry_timeout: options.timeout,
            max_retries: 3,
            ..RetryConfig::default()
        };
        let client = ClientOptions::new()
            // A large file may take long as long as bytes arrive.
            .with_timeout_disabled()
            .with_read_timeout(options.timeout)
            .with_connect_timeout(options.timeout)
            .with_allow_http(options.allow_http);
        let mut builder = AmazonS3Builder::new()
            // Not every server deletes several objects at once.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
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
        let objects = builder.build().map_err(bucket_error(options.url.clone()))?;
        Self::from_objects(Arc::new(objects), bucket, prefix)
    }

    pub(crate) fn from_objects(
        objects: Arc<dyn ObjectStore>,
        bucket: &str,
        prefix: &str,
    ) -> Result<Self, StoreError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = Some(runtime.map_err(file_error(Path::new("tokio")))?);
        let prefix = prefix.trim_matches('/').to_owned();
        Ok(Self {
            objects,
            name: format!("s3://{bucket}"),
            prefix,
            runtime,
            stop: BucketStop::default(),
        })
    }

    /// Lets another thread end what this bucket does.
    #[must_use]
    pub fn with_stop(mut self, stop: BucketStop) -> Self {
        self.stop = stop;
        self
    }

    /// Waits for requests.
    pub(crate) fn run<T>(
        &self,
        requests: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let runtime = self.runtime.as_ref().ok_or(StoreError::Stopped)?;
        let (requests, handle) = abortable(requests);
        self.stop.begin(handle)?;
        runtime.block_on(requests).unwrap_or(Err(StoreError::Stopped))
    }

    pub(crate) fn object(&self, below: &str) -> ObjectPath {
        ObjectPath::from(format!("{}/{below}", self.prefix))
    }

    pub(crate) fn file_object(&self, name: &FileName, table: &TableDefinition) -> ObjectPath {
        self.object(&format!("{}/{name}", name.folder(table)))
    }

    /// Returns what an error of the server means for an object.
    fn failed(
        &self,
        object: &ObjectPath,
    ) -> impl FnOnce(object_store::Error) -> StoreError + use<> {
        bucket_error(format!("{}/{object}", self.name))
    }

    /// Sends a file, and returns its length.
    pub(crate) fn put(&self, path: &Path, object: &ObjectPath) -> Result<u64, StoreError> {
        let mut file = File::open(path).map_err(file_error(path))?;
        let length = file.metadata().map_err(file_error(path))?.len();
        let mut part = Vec::new();
        let mut read = |part: &mut Vec<u8>| {
            part.clear();
            (&mut file).take(PART_BYTES as u64).read_to_end(part).map_err(file_error(path))
        };
        read(&mut part)?;
        self.run(async {
            if length <= PART_BYTES as u64 {
                let sent = self.objects.put(object, PutPayload::from(part)).await;
                return sent.map(|_| ()).map_err(self.failed(object));
            }
            let upload = self.objects.put_multipart(object).await;
            let mut upload = WriteMultipart::new(upload.map_err(self.failed(object))?);
            while !part.is_empty() {
                upload.write(&part);
                let sent = upload.wait_for_capacity(1).await;
                let sent = sent.map_err(self.failed(object));
                if let Err(error) = sent.and_then(|()| read(&mut part)) {
                    // Otherwise the server keeps the parts. The first error says more.
                    let _ = upload.abort().await;
                    return Err(error);
                }
            }
            upload.finish().await.map(|_| ()).map_err(self.failed(object))
        })?;
        Ok(length)
    }

    /// Returns the bucket's segments.
    pub(crate) fn segments(&self) -> Result<Vec<FileName>, StoreError> {
        let prefix = self.object(SEGMENTS.name);
        self.run(async {
            let mut objects = self.objects.list(Some(&prefix));
            let mut names = Vec::new();
            while let Some(object) = objects.try_next().await.map_err(self.failed(&prefix))? {
                let name = object.location.filename().and_then(FileName::parse);
                let is_at_place =
                    |name: &FileName| self.file_object(name, &SEGMENTS) == object.location;
                names.extend(name.filter(is_at_place));
            }
            Ok(names)
        })
    }

    /// Receives an object into a file. Returns its length, or `None` if there is no such object.
    pub(crate) async fn get(
        &self,
        object: &ObjectPath,
        path: &Path,
        file: &mut File,
    ) -> Result<Option<u64>, StoreError> {
        let mut bytes = 0;
        let mut chunks = match self.objects.get(object).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            other => other.map_err(self.failed(object))?.into_stream(),
        };
        while let Some(chunk) = chunks.try_next().await.map_err(self.failed(object))? {
            file.write_all(&chunk).map_err(file_error(path))?;
            bytes += chunk.len() as u64;
        }
        Ok(Some(bytes))
    }

    /// Deletes an object if it exists.
    pub(crate) fn delete(&self, object: &ObjectPath) -> Result<(), StoreError> {
        self.run(async {
            match self.objects.delete(object).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.failed(object)(error)),
            }
        })
    }
}

fn bucket_error(object: String) -> impl FnOnce(object_store::Error) -> StoreError {
    |source| StoreError::Bucket { object, source: Box::new(source) }
}
