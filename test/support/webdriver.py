# SPDX-License-Identifier: Apache-2.0
"""A real browser for tests: headless Chromium, by the WebDriver protocol of chromedriver.

Python's own library alone. Everything that is started ends with the session.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
from servers import free_port  # noqa: E402

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb"]


class Browser:
    """One window. Use it in a with statement."""

    def __init__(self, width=1280, height=900, log="chromedriver.log"):
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        self.port = free_port()
        with open(log, "w") as out:
            self.driver = subprocess.Popen(
                ["chromedriver", f"--port={self.port}"], stdout=out, stderr=out)
        try:
            self.begin(width, height)
        except BaseException:
            self.end()
            raise

    def begin(self, width, height):
        flags = FLAGS + [f"--user-data-dir={self.profile}", f"--window-size={width},{height}"]
        wanted = {"browserName": "chrome", "goog:chromeOptions": {
                      "args": flags, "binary": shutil.which("chromium")},
                  "goog:loggingPrefs": {"browser": "ALL"}}
        deadline = time.monotonic() + 200
        while True:  # until it listens
            try:
                answer = self.call("POST", "/session",
                                   {"capabilities": {"alwaysMatch": wanted}}, session=False)
                break
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > deadline or self.driver.poll() is not None:
                    raise
                time.sleep(0.1)
        self.session = answer["sessionId"]

    def call(self, method, path, body=None, session=True):
        url = f"http://127.0.0.1:{self.port}"
        url += (f"/session/{self.session}" if session else "") + path
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {error.read().decode()[:2000]}") from None

    def open(self, url):
        self.call("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """What a JavaScript function body returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screen(self, width, height, dark=False):
        """The size of the screen, and whether it is a dark one."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height,
                      deviceScaleFactor=1, mobile=width < 640)
        self.devtools("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def colours(self, deficiency):
        """What somebody sees: "none", "achromatopsia" (no colours), "deuteranopia" and so on."""
        self.devtools("Emulation.setEmulatedVisionDeficiency", type=deficiency)

    def screenshot(self, file, whole=False):
        picture = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole, **(
            {"clip": self.whole_page()} if whole else {}))
        with open(file, "wb") as out:
            out.write(base64.b64decode(picture["data"]))

    def whole_page(self):
        height = self.run("return document.documentElement.scrollHeight")
        width = self.run("return document.documentElement.clientWidth")
        return {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}

    def console(self):
        """Errors and warnings since the last call."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})
                if entry["level"] in ("SEVERE", "WARNING")]

    def wait(self, seconds, check, what):
        """Until check() is true; it says what is missing otherwise."""
        deadline = time.monotonic() + seconds
        while True:
            missing = check()
            if not missing:
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: {missing}")
            time.sleep(0.2)

    def end(self):
        try:
            if hasattr(self, "session"):
                self.call("DELETE", "")
        except (OSError, RuntimeError):
            pass
        self.driver.terminate()
        try:
            self.driver.wait(20)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            self.driver.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
