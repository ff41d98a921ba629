// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the library is compiled. Headers (*.hpp) declare; *.inl define what is neither a
/// template, nor short, nor on the path of each packet, where the engine inlines it (cc/, the
/// parsers of wire/, the windows of reliability/).
///
/// * Header-only (the default): each header includes its definitions at its end, as inline
///   functions. An .inl may include another one that only it needs.
/// * Compiled once: with MRC_SEPARATE_COMPILATION defined in every unit of a program, headers omit
///   the definitions, and one unit includes mrc/impl/src.hpp, which has all of them. The CMake
///   targets OpenMRC::static and OpenMRC::shared do that.
///
/// Everything is in the inline namespace mrc::v0_1: two versions of the library in one process
/// (an application's and a plugin's) never share a symbol. Programs write mrc::Device; the
/// number changes with every release that is not binary-compatible.

/// Precedes each definition in *.inl.
#ifdef MRC_SEPARATE_COMPILATION
#define MRC_DECL
#else
#define MRC_DECL inline
#endif

/// Precedes functions, templates among them, that run at set-up or on errors only: compiled for
/// size and placed apart from the data path. Header-only programs compile faster.
#define MRC_COLD __attribute__((cold))

/// Precedes such definitions in *.inl.
#define MRC_SETUP MRC_DECL MRC_COLD

/// In front of each class and function of the application's API (mrc/mrc.hpp): what libopenmrc.so
/// exports; all else in it is hidden. A shared object that contains the library should export
/// nothing of it: compile with -fvisibility=hidden, and with libopenmrc.a link with
/// -Wl,--exclude-libs,libopenmrc.a, as CMake and pkg-config do.
#ifdef MRC_BUILDS_LIBRARY
#define MRC_API __attribute__((visibility("default")))
#else
#define MRC_API
#endif
