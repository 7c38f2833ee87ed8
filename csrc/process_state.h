// State of the process: one object of each type, which forked children can use.
#pragma once

#include <pthread.h>

namespace polycast {

// Returns the only object of type `State`. It is never destroyed, because other threads can outlive static objects. A
// forked child inherits the state of the object's mutex, so the forking thread locks the mutex during the fork.
template <class State>
State& process_state() {
  static State* const instance = [] {
    const auto unlock = [] { process_state<State>().mutex.unlock(); };
    pthread_atfork([] { process_state<State>().mutex.lock(); }, unlock, unlock);
    return new State;
  }();
  return *instance;
}

}  // namespace polycast
