// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/page_files.hpp"

#include <algorithm>
#include <array>

// The files of serve/page/, as they are.
#define MRC_EMBED(name, file)                                   \
  asm(".pushsection .rodata\n"                                  \
      ".global mrc_page_" #name ", mrc_page_" #name             \
      "_end\n"                                                  \
      "mrc_page_" #name ": .incbin \"" MRC_PAGE_FOLDER "/" file \
      "\"\n"                                                    \
      "mrc_page_" #name                                         \
      "_end: .byte 0\n"                                         \
      ".popsection\n");                                         \
  extern "C" const char mrc_page_##name[], mrc_page_##name##_end[];
MRC_EMBED(index, "index.html")
MRC_EMBED(style, "page.css")
MRC_EMBED(page, "page.js")
MRC_EMBED(model, "model.js")
MRC_EMBED(fabric, "fabric.js")
MRC_EMBED(verdict, "verdict.js")
MRC_EMBED(map, "map.js")
MRC_EMBED(lines, "lines.js")
MRC_EMBED(detail, "detail.js")
MRC_EMBED(device, "device.js")
MRC_EMBED(steer, "steer.js")
MRC_EMBED(dom, "dom.js")
MRC_EMBED(icon, "icon.svg")

namespace mrc::ctl_tool {
namespace {

constexpr const char* kScript = "text/javascript; charset=utf-8";

#define MRC_TEXT_OF(name)           \
  std::string_view(mrc_page_##name, \
                   static_cast<std::size_t>(mrc_page_##name##_end - mrc_page_##name))
const std::array kFiles{
    PageFile{"/", "text/html; charset=utf-8", MRC_TEXT_OF(index)},
    PageFile{"/page.css", "text/css; charset=utf-8", MRC_TEXT_OF(style)},
    PageFile{"/page.js", kScript, MRC_TEXT_OF(page)},
    PageFile{"/model.js", kScript, MRC_TEXT_OF(model)},
    PageFile{"/fabric.js", kScript, MRC_TEXT_OF(fabric)},
    PageFile{"/verdict.js", kScript, MRC_TEXT_OF(verdict)},
    PageFile{"/map.js", kScript, MRC_TEXT_OF(map)},
    PageFile{"/lines.js", kScript, MRC_TEXT_OF(lines)},
    PageFile{"/detail.js", kScript, MRC_TEXT_OF(detail)},
    PageFile{"/device.js", kScript, MRC_TEXT_OF(device)},
    PageFile{"/steer.js", kScript, MRC_TEXT_OF(steer)},
    PageFile{"/dom.js", kScript, MRC_TEXT_OF(dom)},
    PageFile{"/icon.svg", "image/svg+xml", MRC_TEXT_OF(icon)},
};

}  // namespace

const PageFile* find_page_file(std::string_view path) {
  const auto found = std::find_if(kFiles.begin(), kFiles.end(),
                                  [path](const PageFile& file) { return file.path == path; });
  return found == kFiles.end() ? nullptr : &*found;
}

}  // namespace mrc::ctl_tool
