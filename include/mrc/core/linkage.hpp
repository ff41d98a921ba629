// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How the library is compiled. Headers (*.hpp) declare; impl/*.ipp define what is neither a
/// template nor short.
///
/// * Header-only (the default): each header includes its definitions at its end, as inline
///   functions.
/// * Compiled once: with MRC_SEPARATE_COMPILATION defined in every unit of a program, headers omit
///   the definitions, and one unit includes mrc/impl/src.hpp, which has all of them. The CMake
///   targets OpenMRC::static and OpenMRC::shared do that.
///
/// Everything is in the inline namespace mrc::v0_1: two versions of the library in one process
/// (an application's and a plugin's) never share a symbol. Programs write mrc::Device; the
/// number changes with every release that is not binary-compatible.

/// Precedes each definition in impl/*.ipp.
#ifdef MRC_SEPARATE_COMPILATION
#define MRC_DECL
#else
#define MRC_DECL inline
#endif

/// Precedes each class and function that a shared library exports; everything else is hidden when
/// compiled with -fvisibility=hidden, as the CMake targets are.
#define MRC_API __attribute__((visibility("default")))
