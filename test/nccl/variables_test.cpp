// SPDX-License-Identifier: Apache-2.0
// docs/nccl_plugin.md lists the variables that the plugin reads.
#include "nccl_plugin/settings/variables.hpp"

#include <doctest/doctest.h>

#include "support/doc_table.hpp"

TEST_CASE("the page about the plugin lists its variables") {
  mrc::test::check_doc_table("nccl_plugin.md",
                             "<!-- variables: made by test/nccl/variables_test.cpp -->\n",
                             "<!-- end of variables -->", mrc_nccl::variables_markdown());
}
