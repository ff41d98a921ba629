// SPDX-License-Identifier: Apache-2.0
#include "mrc/core/system.hpp"

#include <doctest/doctest.h>

#include <array>

using namespace mrc;
using namespace mrc::detail;

namespace mapped_memory_test {

const auto kPage = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));

/// Pages of this process, without rights at first.
class Pages {
 public:
  explicit Pages(std::size_t count, int fd = -1)
      : length_(count * kPage),
        first_(::mmap(nullptr, length_, PROT_NONE,
                      fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0)) {
    REQUIRE(first_ != MAP_FAILED);
  }
  ~Pages() { ::munmap(first_, length_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  [[nodiscard]] std::uint8_t* operator[](std::size_t page) const {
    return static_cast<std::uint8_t*>(first_) + page * kPage;
  }
  void allow(std::size_t first, std::size_t count, int rights) {
    REQUIRE(::mprotect((*this)[first], count * kPage, rights) == 0);
  }

 private:
  std::size_t length_;
  void* first_;
};

void found(MappingFault fault, const void* at, const MappingCheck& check) {
  CHECK(static_cast<int>(check.fault) == static_cast<int>(fault));
  if (fault != MappingFault::none) CHECK(check.address == reinterpret_cast<std::uintptr_t>(at));
}

TEST_CASE("mapped memory: rights of every mapping in the range, and of no other") {
  Pages pages(6);  // 0 none, 1 and 2 read and write, 3 read, 4 read and write, 5 none
  pages.allow(1, 4, PROT_READ | PROT_WRITE);
  pages.allow(3, 1, PROT_READ);
  found(MappingFault::none, nullptr, check_mapping(pages[1], 4 * kPage, false));
  found(MappingFault::none, nullptr, check_mapping(pages[1], 2 * kPage, true));
  found(MappingFault::none, nullptr, check_mapping(pages[4] + 5, kPage - 5, true));
  found(MappingFault::unwritable, pages[3], check_mapping(pages[1], 4 * kPage, true));
  found(MappingFault::unwritable, pages[3], check_mapping(pages[2] + 7, kPage, true));
  found(MappingFault::unwritable, pages[3] + 9, check_mapping(pages[3] + 9, 1, true));
  found(MappingFault::unreadable, pages[0] + 1, check_mapping(pages[0] + 1, kPage, false));
  found(MappingFault::unreadable, pages[5], check_mapping(pages[4], kPage + 1, true));
  found(MappingFault::none, nullptr, check_mapping(pages[0], 0, true));
  std::array<unsigned char, 6> present{};
  REQUIRE(::mincore(pages[0], 6 * kPage, present.data()) == 0);
  for (const unsigned char one : present) CHECK((one & 1) == 0);  // none was touched
}

TEST_CASE("mapped memory: what is behind the end of a file is found") {
  const UniqueFd file(::memfd_create("mapped_memory_test", MFD_CLOEXEC));
  REQUIRE(file.open());
  REQUIRE(::ftruncate(file.fd(), static_cast<off_t>(kPage + 1)) == 0);
  Pages pages(3, file.fd());
  pages.allow(0, 3, PROT_READ | PROT_WRITE);
  found(MappingFault::none, nullptr, check_mapping(pages[0], 2 * kPage, true));
  found(MappingFault::past_file, pages[3] - 1, check_mapping(pages[0], 3 * kPage, true));
  REQUIRE(::ftruncate(file.fd(), static_cast<off_t>(3 * kPage)) == 0);
  found(MappingFault::none, nullptr, check_mapping(pages[0], 3 * kPage, true));
}

TEST_CASE("mapped memory: the text of /proc says the same as the query") {
  Pages pages(4);
  pages.allow(1, 1, PROT_READ);
  pages.allow(2, 1, PROT_READ | PROT_WRITE);
  Mappings query, text(Mappings::Way::text);
  REQUIRE(query.ok());
  const auto begin = reinterpret_cast<std::uintptr_t>(pages[0]);
  for (std::size_t page = 0; page < 4; ++page) {
    CAPTURE(page);
    const auto a = query.at_or_after(begin + page * kPage);
    const auto b = text.at_or_after(begin + page * kPage);
    REQUIRE(a);
    REQUIRE(b);
    CHECK(a->begin == b->begin);
    CHECK(a->end == b->end);
    CHECK(a->readable == b->readable);
    CHECK(a->writable == b->writable);
    CHECK(a->of_file == b->of_file);
    CHECK(b->readable == (page == 1 || page == 2));
    CHECK(b->writable == (page == 2));
  }
}

}  // namespace mapped_memory_test
