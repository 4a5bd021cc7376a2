//! Pages in headless Chromium, driven by the DevTools protocol over two FIFOs.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{ProcessGuard, sh};

/// Chromium with one page.
pub(crate) struct Browser {
    /// Declared first, so that the process ends before its folder is removed.
    child: ProcessGuard,
    commands: File,
    answers: BufReader<File>,
    number: u64,
    session: Option<String>,
    /// Events that arrived while waiting for an answer.
    told: Vec<Value>,
    /// The start of the site's URLs.
    site: String,
    folder: tempfile::TempDir,
}

impl Browser {
    /// Opens a page and waits until it is ready. Without Chromium, prints the reason and returns
    /// `None`.
    pub(crate) fn open(page: &Path, scheme: &str) -> Option<Self> {
        Self::visit(&format!("file://{}", page.display()), "file", scheme)
    }

    /// Opens a page of a site, whose own requests aren't complaints.
    pub(crate) fn visit(url: &str, site: &str, scheme: &str) -> Option<Self> {
        if !Command::new("chromium").arg("--version").output().is_ok_and(|out| out.status.success())
        {
            println!("skipped: there is no Chromium here (Debian's package: chromium)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        assert!(sh(&format!("mkfifo {at}/in {at}/out")).status.success());
        let options = "--headless --no-sandbox --disable-gpu --disable-background-networking --disable-component-update --remote-debugging-pipe";
        let line = format!(
            "exec timeout 200 chromium {options} --user-data-dir={at}/profile about:blank 3<{at}/in 4>{at}/out"
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &line])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = ProcessGuard::spawn(&mut command);
        let commands = File::options().write(true).open(folder.path().join("in")).unwrap();
        let answers = BufReader::new(File::open(folder.path().join("out")).unwrap());
        let number = 0;
        let session = None;
        let told = Vec::new();
        let site = site.to_owned();
        let mut browser = Self { child, commands, answers, number, session, told, site, folder };
        let targets = browser.call("Target.getTargets", &json!({}));
        let is_page = |target: &&Value| target["type"] == "page";
        let target = targets["targetInfos"].as_array().unwrap().iter().find(is_page).unwrap();
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        let size = json!({"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        browser.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", &scheme);
        let begin = Instant::now();
        browser.call("Page.navigate", &json!({"url": url}));
        let state = "document.body ? document.body.dataset.ready : null";
        let state = json!({"expression": state, "returnByValue": true});
        // A page that goes on to another one ends its script, which is an error.
        while browser
            .ask("Runtime.evaluate", &state)
            .map_or(true, |answer| answer["result"]["value"] != "yes")
        {
            assert!(begin.elapsed() < Duration::from_secs(60), "the page is never ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        println!("{url} was ready after {:?}", begin.elapsed());
        Some(browser)
    }

    /// Calls a DevTools method and returns its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.ask(method, params).unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Calls a DevTools method and returns its result, or its error.
    fn ask(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        write!(self.commands, "{message}\0").unwrap();
        loop {
            let mut answer = Vec::new();
            self.answers.read_until(0, &mut answer).unwrap();
            assert_eq!(answer.pop(), Some(0), "Chromium has ended");
            let mut answer: Value = serde_json::from_slice(&answer).unwrap();
            if answer["id"] == self.number {
                let error = answer["error"].take();
                return if error.is_null() { Ok(answer["result"].take()) } else { Err(error) };
            }
            self.told.push(answer);
        }
    }

    /// Evaluates a JavaScript expression and awaits it if it is a promise.
    pub(crate) fn js(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut result = self.call("Runtime.evaluate", &params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].take()
    }

    /// The text of the element with this id.
    pub(crate) fn text(&mut self, id: &str) -> String {
        let text = self.js(&format!("document.getElementById('{id}').textContent"));
        text.as_str().unwrap().to_owned()
    }

    /// Presses a key and types its text.
    pub(crate) fn key(&mut self, key: &str) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for (kind, text) in [("keyDown", text), ("keyUp", "")] {
            let event = json!({"type": kind, "key": key, "code": key, "text": text});
            self.call("Input.dispatchKeyEvent", &event);
        }
    }

    /// Sends a mouse event: `mouseMoved`, `mousePressed` or `mouseReleased`.
    pub(crate) fn pointer(&mut self, kind: &str, x: f64, y: f64) {
        let pressed = kind != "mouseReleased" && self.js("!!window.isPressed") == true;
        let button = if kind == "mouseMoved" && !pressed { "none" } else { "left" };
        let event = json!({"type": kind, "x": x, "y": y, "button": button, "buttons": i32::from(pressed), "clickCount": 1});
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// Drags from one point to another; if they are equal, clicks.
    pub(crate) fn drag(&mut self, from: (f64, f64), to: (f64, f64)) {
        self.pointer("mouseMoved", from.0, from.1);
        self.pointer("mousePressed", from.0, from.1);
        self.js("window.isPressed = true");
        if from != to {
            self.pointer("mouseMoved", to.0, to.1);
        }
        self.js("window.isPressed = false");
        self.pointer("mouseReleased", to.0, to.1);
    }

    /// Exceptions, log entries, console messages, and requests other than for the page itself and
    /// for `data:` URLs.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        self.js("new Promise((done) => setTimeout(done, 50))");
        let methods = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"];
        let is_one = |told: &&Value| {
            let url = told["params"]["request"]["url"].as_str().unwrap_or_default();
            let is_request = told["method"] == "Network.requestWillBeSent"
                && (told["params"]["type"] != "Document" || !url.starts_with(&self.site))
                && !(url.starts_with("data:")
                    || self.site != "file" && url.starts_with(&self.site));
            is_request || methods.iter().any(|method| told["method"] == *method)
        };
        self.told.iter().filter(is_one).map(Value::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.child.end();
        assert!(self.folder.path().exists());
    }
}
