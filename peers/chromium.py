"""A page in headless Chromium, driven by the DevTools protocol over two pipes."""

import base64
import contextlib
import json
import os
import subprocess
import tempfile
import time


class PageLeft(RuntimeError):
    """The page went on to another one while a script ran."""


class Page:
    def __init__(self, url, width=1600, height=4000):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_child, self.commands = os.pipe()
        self.answers, from_child = os.pipe()
        line = (
            "exec timeout 600 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files"
            f" --remote-debugging-pipe --user-data-dir={self.folder.name} about:blank"
            f" 8<&{to_child} 9>&{from_child} 3<&8 4>&9"
        )
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(["sh", "-c", line], pass_fds=[to_child, from_child], **quiet)
        os.close(to_child)
        os.close(from_child)
        self.number, self.session, self.rest, self.events = 0, None, b"", []
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.call("Page.navigate", url=url)

    def resize(self, width, height):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def scheme(self, scheme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            while b"\0" not in self.rest:
                some = os.read(self.answers, 1 << 20)
                if not some:
                    raise RuntimeError("Chromium has ended")
                self.rest += some
            answer, self.rest = self.rest.split(b"\0", 1)
            answer = json.loads(answer)
            if answer.get("id") == self.number:
                if answer.get("error", {}).get("message", "").startswith("Inspected target navigated"):
                    raise PageLeft(method)
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=60, pause=0.1):
        end = time.time() + seconds
        while True:
            # A page that goes on to another one ends its script.
            with contextlib.suppress(PageLeft):
                value = self.js(expression)
                if value:
                    return value
            if time.time() > end:
                raise RuntimeError(f"in vain: {expression}; the page says {self.js('document.body.innerText')!r}")
            time.sleep(pause)

    def key(self, key, modifiers=0):
        """Presses a key: one with a text, or Tab, Enter, Escape, ArrowLeft and so on."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        name = {"windowsVirtualKeyCode": codes[key], "code": key} if key in codes else {"code": f"Digit{key}"}
        for kind in ("keyDown", "keyUp"):
            text = {"Enter": "\r"}.get(key, "" if key in codes else key) if kind == "keyDown" else ""
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text, modifiers=modifiers, **name)

    def close(self):
        # The children of a killed browser may still write into the folder while it is removed.
        self.session = None
        with contextlib.suppress(RuntimeError, OSError):
            self.call("Browser.close")
        os.close(self.commands)
        os.close(self.answers)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()
        self.folder.cleanup()
