// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the library is compiled: headers (*.hpp) declare, and define what is a template, short, or
/// on the path of each packet, where the engine inlines it. All else is defined in files *.inl,
/// once in a program: in the unit that defines MRC_IMPLEMENTATION (mrc/mrc.hpp), or in the compiled
/// library, which is made of the same files.
///
/// Everything is in the inline namespace mrc::v0_1: two versions of the library in one process
/// (an application's and a plugin's) never share a symbol. Programs write mrc::Device; the
/// number changes with every release that is not binary-compatible.

/// In front of each class and function of the application's API (mrc/mrc.hpp): what libopenmrc.so
/// exports; all else in it is hidden. A shared object that contains the library should export
/// nothing of it: compile with -fvisibility=hidden, and with libopenmrc.a link with
/// -Wl,--exclude-libs,libopenmrc.a, as CMake and pkg-config do.
#ifdef MRC_BUILDS_LIBRARY
#define MRC_API __attribute__((visibility("default")))
#else
#define MRC_API
#endif

/// In front of each class that a public header names and does not define, of each that holds one,
/// and of members of public structs that are not for applications: hidden in any case.
#define MRC_LOCAL [[gnu::visibility("hidden")]]
