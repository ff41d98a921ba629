// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <cstdint>

namespace mrc_verbs {

/// Sleeps until the program has acknowledged all events that it was given of an object, which is a
/// struct of verbs with mutex and condition.
template <class Object>
void await_acknowledged(Object& object, const std::uint32_t& done, const std::uint32_t& given) {
  ::pthread_mutex_lock(&object.mutex);
  while (done != given) ::pthread_cond_wait(&object.cond, &object.mutex);
  ::pthread_mutex_unlock(&object.mutex);
}

/// The program acknowledges events.
template <class Object>
void acknowledge(Object& object, std::uint32_t& done, std::uint32_t events) {
  ::pthread_mutex_lock(&object.mutex);
  done += events;
  ::pthread_cond_signal(&object.cond);
  ::pthread_mutex_unlock(&object.mutex);
}

}  // namespace mrc_verbs
