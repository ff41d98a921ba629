# SPDX-License-Identifier: Apache-2.0
# What runs in which build: the one place that decides it (docs/testing.md says why). A row is a
# pattern of files relative to test/, or of folders elsewhere, and from which MRC_TEST_SCOPE on they
# are built and run, without sanitizers (release), with that of addresses and that of threads:
#   check  always
#   full   scripts/check --full and --long
#   long   scripts/check --long
#   -      not in this build
# The first row that matches counts; what matches none runs everywhere.
set(MRC_TEST_WHERE
  # pattern                                                        release  address  thread

  # Minutes, and a package of 60 MB and more, for what others of the same folder stand on.
  "^vm/"                                                           full     -        -
  # Two hundred processes. Sanitizers would make them starve.
  "^fleet/"                                                        full     -        -
  # The whole library in one unit, with counters, three times.
  "^header_only/write_files"                                       long     -        -
  # Once, without optimising; benchmarks, whose figures a sanitizer spoils.
  "^(header_only|header/all|docs/readme)"                         full     -        -
  "^bench/"                                                        full     -        -
  # Pages, style, exports and packages: no program, or other people's.
  "^(docs|header|install|style|symbols)/"                          check    -        -
  "^(libmrc|verbs)/[^/]*\\.sh$"                                    check    -        -
  "^nccl/(self_contained|run_on_gpu)"                              check    -        -

  # The simulator, the prober and what reads files of users: made of what the layers' tests run.
  "^(sim|probe|tools/(mrc_fabric|mrc_probe|mrc_sim))/"             check    long     -
  "^tools/mrc_ctl/"                                                check    check    -
  "^tools/"                                                        check    -        -
  # The same few lines a million times.
  "^cc/closed_loop"                                                check    long     -
  # Children of processes with threads, signals that sanitizers catch, blocked system calls.
  "^host/dumps"                                                    check    -        -
  "^(device|host)/fork"                                            check    -        check
  "^(libmrc|verbs)/fork"                                           check    -        -
  # System calls that the sanitizer of threads takes for itself.
  "^(libmrc|verbs)/cancel"                                         check    check    -
  "^device/system_calls"                                           check    -        check
  # One thread: nothing for the sanitizer of threads.
  "^(api|cc|conformance|core|engine|fabric|json|path|reliability|wire)/"
                                                                   check    check    -
  "^(exchange/resolution_|nccl/collective_test|plane/uc_)"         check    check    -
  # Attacks with packets that are not what a parser expects; the others are about decisions of the
  # engine, as test_security is.
  "^security/(garbage|guests|local_user|trimmed|writes)_test\\.sh" check    check    -
  "^security/.*\\.sh$"                                             check    long     -
  "^security/"                                                     check    check    -

  "^process/sim_test"                                              check    long     -
  # Minutes of traffic that other programs on the machine disturb.
  "^process/srv6_slow"                                             long     -        -
  # A sanitized program is too slow to fill a fabric's links and for whole scenarios; its own memory
  # grows; some run scripts, or wait.
  "^process/(decode|give_up|plot|serve_(memory|page|verdict)|sim|soak|srv6)"     check    -        -
  # mrc_ctl again and again, which takes what its users say and asks their own processes.
  "^process/ctl"                                                   check    long     -
  "^nccl/srv6_"                                                    check    -        -
  "^nccl/outages"                                                  check    check    -
)
set(MRC_TEST_SCOPES check full long)

# Sets `result` to whether `file`, a path that the patterns are made for, is part of this build.
function(mrc_runs_here file result)
  set(column 1)
  if(MRC_SANITIZE MATCHES "address")
    set(column 2)
  elseif(MRC_SANITIZE)
    set(column 3)
  endif()
  list(FIND MRC_TEST_SCOPES "${MRC_TEST_SCOPE}" scope)
  list(LENGTH MRC_TEST_WHERE length)
  set(${result} TRUE PARENT_SCOPE)
  foreach(row RANGE 0 ${length} 4)
    if(row EQUAL length)
      break()
    endif()
    list(GET MRC_TEST_WHERE ${row} pattern)
    if(NOT file MATCHES "${pattern}")
      continue()
    endif()
    math(EXPR cell "${row} + ${column}")
    list(GET MRC_TEST_WHERE ${cell} from)
    list(FIND MRC_TEST_SCOPES "${from}" from)
    if(from EQUAL -1 OR from GREATER scope)
      set(${result} FALSE PARENT_SCOPE)
    endif()
    break()
  endforeach()
endfunction()

# Removes from `list` the files that are not part of this build.
function(mrc_keep_what_runs_here list)
  set(kept "")
  foreach(file IN LISTS ${list})
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/test ${file})
    mrc_runs_here(${path} here)
    if(here)
      list(APPEND kept ${file})
    endif()
  endforeach()
  set(${list} ${kept} PARENT_SCOPE)
endfunction()
