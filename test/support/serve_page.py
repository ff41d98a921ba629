#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at the page of `mrc_ctl serve` in a real browser while a T1 fails and is repaired.

usage: serve_page.py URL PICTURES T1 HOST,HOST STEERED TOKEN -- COMMAND...

The two hosts send to each other over all paths. T1 is such as p1t1-2; COMMAND followed by "down" or
"up" lets it fail or repairs it. Checks that the page shows as bad exactly the paths whose routes
lead over the T1, by the description's numbers alone, that it names the T1, and that it shows all
paths as good before, and after the repair. At the URL STEERED planes can be taken out of use by who
has the token, and another host's snapshot is full of markup (odd_http_peer.py odd). Leaves
screenshots in the folder PICTURES.
"""

import base64
import os
import re
import subprocess
import sys
import time

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

CELLS = """return [...document.querySelectorAll('button.cell')].map(cell => ({
  state: cell.dataset.state, plane: Number(cell.dataset.plane), route: cell.dataset.route,
  label: cell.getAttribute('aria-label')}))"""
LONG = 600  # seconds; only a hang takes so long
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb",
         "--window-size=1280,900"]


class Browser(webdriver.Chrome):
    """Headless Chromium with one window. Use it in a with statement."""

    def __init__(self, log):
        options = webdriver.ChromeOptions()
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        super().__init__(service=Service(log_path=log), options=options)
        self.run = self.execute_script  # what a JavaScript function body returns
        self.open = self.get

    def screen(self, width, height, dark=False):
        """The size of the screen, and whether it is a dark one."""
        self.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 640})
        self.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})

    def colours(self, deficiency):
        """What somebody sees: "none", "achromatopsia" (no colours), "deuteranopia" and so on."""
        self.execute_cdp_cmd("Emulation.setEmulatedVisionDeficiency", {"type": deficiency})

    def screenshot(self, file, whole):
        height, width = self.run("const page = document.documentElement;"
                                 "return [page.scrollHeight, page.clientWidth]")
        clip = {"clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}
        picture = self.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": whole, **(clip if whole else {})})
        with open(file, "wb") as out:
            out.write(base64.b64decode(picture["data"]))

    def wait(self, seconds, check, what):
        """Until check() says that nothing is missing."""
        deadline = time.monotonic() + seconds
        while missing := check():
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: {missing}")
            time.sleep(0.2)


def route_over(t1, source, target):
    """The stops of a path from one host to another; host k is under T0 k."""
    plane = re.match(r"p(\d+)t1-", t1)[1]
    return f"{source} p{plane}t0-{source[1:]} {t1} p{plane}t0-{target[1:]} {target}"


class Page:
    def __init__(self, browser, folder):
        self.browser, self.folder = browser, folder

    def cells(self):
        return self.browser.run(CELLS)

    def routes(self, *states):
        return {cell["route"] for cell in self.cells() if cell["state"] in states}

    def suspects(self):
        return self.browser.run("return [...document.querySelectorAll('#fabric:not([hidden]) tbody "
                                "tr')].map(row => row.dataset.part)")

    def sentence(self):
        return self.browser.run("return document.querySelector('#verdict .sentence').textContent")

    def picture(self, name, width=1280, height=900, dark=False, whole=True):
        self.browser.screen(width, height, dark)
        self.browser.run("window.scrollTo(0, 0)")
        self.browser.screenshot(os.path.join(self.folder, name + ".png"), whole)

    def keep_events(self):
        """The page shows the newest: other paths soon push out those of the T1."""
        self.browser.run("""const list = document.querySelector('#events ol');
            window.events = new Set();
            const keep = () => { for (const one of list.children) events.add(one.textContent); };
            new MutationObserver(keep).observe(list, {childList: true, subtree: true});
            keep();""")

    def misses_event(self, t1, happened):
        """Has none of the events since keep_events() told that of a path over the T1?"""
        events = self.browser.run("return [...window.events]")
        found = any(f"over {t1} " in event and happened in event for event in events)
        return "" if found else f"no path over {t1} {happened}: {events[:8]}"

    def all_good(self):
        cells = self.cells()
        if not cells:
            return "no cells"
        wrong = [c["label"] for c in cells if c["state"] not in ("good", "skip", "backup")]
        return "; ".join(wrong[:8])

    def bad_are(self, expected):
        bad = self.routes("bad")
        return "" if bad == expected else f"bad are {sorted(bad)}, not {sorted(expected)}"


def no_wider_than(browser, width):
    wide = browser.run("return document.documentElement.scrollWidth")
    if wide > width:
        raise SystemExit(f"the page is {wide} pixels wide on a screen of {width}")


def check_failure(page, t1, a, b):
    """The bad paths are those over the T1, and the page names it."""
    page.browser.wait(LONG, lambda: page.bad_are({route_over(t1, a, b), route_over(t1, b, a)}) or
                      ("" if t1 == page.suspects()[0] and t1 in page.sentence() else
                       f"not named first: {page.suspects()}, '{page.sentence()}'"), f"{t1} is down")
    for name, width, height, dark in (("bad", 1280, 900, False), ("bad-dark", 1280, 900, True),
                                      ("bad-phone", 360, 740, False)):
        page.picture(name, width, height, dark)
        no_wider_than(page.browser, width)
    page.browser.colours("achromatopsia")
    page.picture("bad-grey")
    page.browser.colours("none")


def check_detail(page, t1):
    """A click on a bad path shows its route, the T1 marked."""
    page.browser.run("document.querySelector(`button.cell[data-route~='${arguments[0]}'].bad`)"
                     ".click()", t1)
    stops = page.browser.run("return [...document.querySelectorAll('#detail .way li')].map("
                             "li => [li.querySelector('strong').textContent, li.className])")
    if [t1, "stop suspect"] not in stops or len(stops) != 5:
        raise SystemExit(f"the route of a bad path is shown as {stops}")
    page.picture("path", whole=False)
    page.browser.run("document.getElementById('detail').close()")


def check_measures(page):
    """Cells show what is chosen; paths that carry data have a round-trip time."""
    def unknown():
        return "; ".join(c["label"] for c in page.cells() if c["state"] == "good" and
                         not re.search(r"round trip [\d.]+ (µs|ms)$", c["label"]))
    for measure in ("loss", "load", "rtt", "health"):
        page.browser.run("document.querySelector(`input[value=${arguments[0]}]`).click()", measure)
        if measure == "rtt":
            page.browser.wait(LONG, unknown, "no round-trip time")
        if measure != "health":
            page.picture(measure)


def check_keys(browser):
    """Arrows lead from cell to cell."""
    browser.run("""const cells = document.querySelectorAll('.row')[1].querySelectorAll('.cell');
        cells[0].focus();
        for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp'])
          document.activeElement.dispatchEvent(
              new KeyboardEvent('keydown', {key, bubbles: true}))""")
    label = browser.run("return document.activeElement.getAttribute('aria-label')")
    if not label.startswith("plane 1, EV 0x6"):
        raise SystemExit(f"arrows lead to {label}")


def check_repair(page, t1):
    page.browser.wait(LONG, page.all_good, f"{t1} is up again")
    page.picture("repaired")
    for happened in ("is bad", "is good again"):
        page.browser.wait(LONG, lambda: page.misses_event(t1, happened), "events")


def no_complaints(browser):
    errors = [entry["message"] for entry in browser.get_log("browser")
              if entry["level"] in ("SEVERE", "WARNING")]
    if errors:
        raise SystemExit(f"the browser complains: {errors}")


def check_steering(browser, url, token):
    """Beside a host that sends markup in place of names: it is text; a plane goes out of use."""
    browser.open(url)
    state = "document.querySelectorAll('.planes tbody .state')[1]?.textContent ?? ''"
    browser.wait(LONG, lambda: "" if browser.run(f"return {state}") == "✓ up" else "no plane",
                 "steering")
    if browser.run("return document.querySelectorAll('main img, main script').length"):
        raise SystemExit("another host's text has become markup")
    for before, after in (("Take out of use", "– out of use"), ("Use again", "✓ up")):
        browser.run("""document.querySelector('.planes').open = true;
            document.querySelectorAll('.planes tbody button')[1].click();
            document.getElementById('token-value').value = arguments[0];
            document.querySelector('#token .go').click()""", token)
        note = "return document.getElementById('token-note').textContent"
        browser.wait(LONG, lambda: "" if browser.run(f"return {state}") == after else
                     browser.run(note), before)
    if browser.run("return window.broken ?? 0"):
        raise SystemExit("another host's script has run")


def main(url, folder, t1, hosts, steered, token, command):
    a, b = hosts.split(",")
    with Browser(os.path.join(folder, "chromedriver.log")) as browser:
        page = Page(browser, folder)
        browser.screen(1280, 900)
        browser.open(url)
        browser.wait(LONG, page.all_good, "before the failure")
        browser.wait(LONG, lambda: "" if browser.run("return document.body.dataset.rounds >= 5")
                     else "no further rounds", "the page goes on")
        page.picture("good")
        check_keys(browser)
        page.keep_events()
        subprocess.run(command + ["down"], check=True, stdout=subprocess.DEVNULL)
        check_failure(page, t1, a, b)
        check_detail(page, t1)
        check_measures(page)
        subprocess.run(command + ["up"], check=True, stdout=subprocess.DEVNULL)
        check_repair(page, t1)
        no_complaints(browser)
        check_steering(browser, steered, token)
        no_complaints(browser)


if __name__ == "__main__":
    if len(sys.argv) < 9 or sys.argv[7] != "--":
        sys.exit(__doc__)
    main(*sys.argv[1:7], sys.argv[8:])
