//! Headless Chromium with one page, driven by the DevTools protocol over two FIFOs.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::{Value, json};

const OPTIONS: &str = "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --remote-debugging-pipe";

/// A JavaScript function that calls its argument when the second frame from now begins: by then the
/// first is drawn.
pub(super) const DRAWN: &str =
    "((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";

/// A browser that ends when this value is dropped.
pub(super) struct Browser {
    child: Child,
    commands: File,
    answers: BufReader<File>,
    number: u64,
    session: Option<String>,
    _folder: tempfile::TempDir,
}

impl Browser {
    /// Starts a browser with an empty page.
    pub(super) fn start() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = folder.path().display();
        let made =
            Command::new("mkfifo").args([format!("{at}/in"), format!("{at}/out")]).status()?;
        ensure!(made.success(), "mkfifo failed");
        let line = format!(
            "exec timeout 120 chromium {OPTIONS} --user-data-dir={at}/profile about:blank 3<{at}/in 4>{at}/out"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = shell.spawn()?;
        let commands = File::options().write(true).open(folder.path().join("in"))?;
        let answers = BufReader::new(File::open(folder.path().join("out"))?);
        let number = 0;
        let session = None;
        let mut browser = Self { child, commands, answers, number, session, _folder: folder };
        let targets = browser.call("Target.getTargets", &json!({}))?;
        let targets = targets["targetInfos"].as_array().context("no targets")?;
        let page = targets.iter().find(|target| target["type"] == "page").context("no page")?;
        let attach = json!({"targetId": page["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach)?;
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        let size = json!({"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", &size)?;
        Ok(browser)
    }

    /// Opens a page of `tare flame` and returns the time until the page is drawn.
    pub(super) fn open(&mut self, page: &Path) -> anyhow::Result<Duration> {
        let begin = Instant::now();
        self.call("Page.navigate", &json!({"url": format!("file://{}", page.display())}))?;
        self.js(&format!(
            "new Promise((done) => {{
                const look = () => document.body?.dataset.ready ? {DRAWN}(done) : setTimeout(look, 1);
                look();
            }})"
        ))?;
        Ok(begin.elapsed())
    }

    /// Evaluates a JavaScript expression and awaits it if it is a promise.
    pub(super) fn js(&mut self, expression: &str) -> anyhow::Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", &params)?;
        ensure!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        Ok(result["result"]["value"].take())
    }

    fn call(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        write!(self.commands, "{message}\0")?;
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer)?;
            if answer.pop() != Some(0) {
                bail!("Chromium has ended (Debian's package: chromium)");
            }
            let mut answer: Value = serde_json::from_slice(&answer)?;
            if answer["id"] == self.number {
                ensure!(answer["error"].is_null(), "{method}: {answer}");
                return Ok(answer["result"].take());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The folder is removed after this, so Chromium must have exited.
        let _ = self.call("Browser.close", &json!({}));
        let _ = self.child.wait();
    }
}
