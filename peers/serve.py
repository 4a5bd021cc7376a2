"""The page of `tare serve` in headless Chromium: axe, keyboard, console, requests, sizes and colours.

serve.py check TARE STORE AXE.js FOLDER    screenshots go to FOLDER
serve.py measure TARE STORE                times of the first view and of filters
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

from chromium import Page

SIZES = [(320, 640), (1400, 900), (3840, 2160)]
VIEWS = ["services", "flame", "table", "compare", "function", "losses"]
MINUTES_US = 5 * 60_000_000
IDLE = "document.body && document.body.dataset.ready === 'yes' && document.body.dataset.busy === 'no'"


class Server:
    def __init__(self, tare, *options):
        self.process = subprocess.Popen([tare, "serve", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.link = self.process.stdout.readline().strip()
        self.origin = self.link.partition("/?")[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def complaints(page, origin):
    """Exceptions, messages of the console, and requests elsewhere."""
    page.js("new Promise((done) => setTimeout(done, 50))")
    found = []
    for event in page.events:
        method, params = event.get("method"), event.get("params", {})
        if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
            found.append(str(params))
        if method == "Network.requestWillBeSent" and not params["request"]["url"].startswith((f"{origin}/", "data:", "about:")):
            found.append(params["request"]["url"])
    return found


def axe(page, script):
    """What axe finds, by rule."""
    page.js(script)
    found = page.js("axe.run(document, { iframes: false }).then(({ violations }) => violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html + ' ' + node.failureSummary).slice(0, 3).join(' | ')}`))")
    return found


def choose(page, link):
    page.js(f"location.hash = {link!r}")
    # The change of the address is seen a moment later.
    page.js("new Promise((done) => setTimeout(done, 20))")
    page.wait(IDLE)


def check_views(page, script, folder, function):
    links = {view: f"view={view}" for view in VIEWS}
    links["function"] = f"view=function&fn={function}"
    links["compare"] = "view=compare&where=version=1.4.2&vs_where=version=1.5.0"
    links["difference"] = links["compare"] + "&by=flame+graph"
    found = []
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        for width, height in SIZES:
            page.resize(width, height)
            for view, link in links.items():
                choose(page, f"{link}&since={page.since}&until={page.until}")
                where = f"{view} {scheme} {width}"
                failed = page.js("document.body.dataset.failed")
                if failed:
                    found.append(f"{where}: {failed}")
                wide = page.js("document.documentElement.scrollWidth - innerWidth")
                if wide > 0:
                    found.append(f"{where}: {wide} pixels too wide")
                if width < 3000:
                    found += [f"{where}: {line}" for line in axe(page, script)]
                page.screenshot(folder / f"{view}-{scheme}-{width}.png")
    return found


def check_keys(page, script):
    """By keyboard alone: every view, a filter, the range, the help."""
    page.resize(1400, 900)
    choose(page, f"view=services&since={page.since}&until={page.until}")
    page.js("document.activeElement.blur(), window.scrollTo(0, 0)")
    seen, found = [], []
    for _ in range(40):
        page.key("Tab")
        focused = page.js("(() => { const e = document.activeElement, s = getComputedStyle(e), b = e.getBoundingClientRect(); return { id: e.id || e.className || e.tagName, isVisible: b.width > 0 && b.height > 0 && b.right > 0, hasOutline: s.outlineStyle !== 'none' }; })()")
        seen.append(focused["id"])
        if not focused["isVisible"] or (not focused["hasOutline"] and focused["id"] != "BODY"):
            found.append(f"focus isn't visible: {focused}")
    for wanted in ("losses-line", "theme", "condition", "time", "scroller", "name"):
        if wanted not in seen:
            found.append(f"Tab doesn't reach {wanted}: {seen}")
    for at, view in enumerate(VIEWS):
        page.js("document.activeElement.blur()")
        page.key(str(at + 1))
        page.wait(f"document.body.dataset.view === '{view}' && {IDLE}")
    page.js("document.activeElement.blur()")
    page.key("1")
    page.wait(IDLE)
    page.key("/")
    for letter in "service=service-00":
        page.key(letter)
    page.key("Enter")
    page.wait(f"document.querySelectorAll('#conditions li').length === 1 && {IDLE}")
    page.key("Escape")
    before = page.js("document.getElementById('range').textContent")
    page.js("document.getElementById('time').focus()")
    page.key("ArrowRight", 8)
    page.key("ArrowLeft")
    page.wait(f"document.getElementById('range').textContent !== {before!r} && {IDLE}")
    page.js("document.activeElement.blur()")
    page.key("?")
    page.wait("document.getElementById('help').open")
    found += [f"help: {line}" for line in axe(page, script)]
    page.key("Escape")
    page.wait("!document.getElementById('help').open")
    return found


def check(tare, store, axe_path, folder):
    folder, script = pathlib.Path(folder), pathlib.Path(axe_path).read_text()
    folder.mkdir(parents=True, exist_ok=True)
    with Server(tare, "--store", store) as server:
        page = Page(server.link, 1400, 900)
        try:
            page.wait(IDLE)
            text = page.js("fetch('/api/about').then((answer) => answer.text())")
            about = json.loads(text.strip().split("\n")[-1])["answer"]
            # Versions change in the middle.
            middle = (about["start_us"] + about["end_us"]) // 2
            page.since, page.until = middle - MINUTES_US, middle + MINUTES_US
            choose(page, f"view=table&since={page.since}&until={page.until}")
            function = page.js("document.querySelector('td button.name, th button.name').textContent")
            found = check_views(page, script, folder, function) + check_keys(page, script)
            found += complaints(page, server.origin)
        finally:
            page.close()
    for line in found:
        print(line)
    if found:
        sys.exit(f"{len(found)} findings on the page of tare serve")
    print(f"tare serve: {len(VIEWS) + 1} views in light and dark at {len(SIZES)} sizes: no findings; screenshots in {folder}")


def measure(tare, store):
    """Prints the seconds until a view is complete, each time by a new server and browser."""
    times = {}
    for _ in range(5):
        with Server(tare, "--store", store) as server:
            page = Page("about:blank", 1400, 900)
            try:
                begin = time.time()
                page.call("Page.navigate", url=server.link)
                page.wait(IDLE, pause=0.005)
                times.setdefault("first view", []).append(time.time() - begin)
                for link in [
                    "view=services&where=service=service-03",
                    "view=services&where=host=host-07",
                    "view=table&by=function&where=service=service-03",
                    "view=flame&where=service=service-03",
                    "view=flame",
                ]:
                    waited = page.js(f"new Promise((done) => {{ const begin = performance.now(); location.hash = {link!r}; const look = () => ({IDLE} ? done(performance.now() - begin) : setTimeout(look, 5)); setTimeout(look, 20); }})")
                    times.setdefault(link, []).append(waited / 1000)
            finally:
                page.close()
    for name, seconds in times.items():
        print(f"{name}: median {statistics.median(seconds):.2f} s, {min(seconds):.2f} to {max(seconds):.2f} of {len(seconds)}")


if __name__ == "__main__":
    {"check": check, "measure": measure}[sys.argv[1]](*sys.argv[2:])
