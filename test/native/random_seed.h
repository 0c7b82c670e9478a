// Seeds and lengths of random tests.
#ifndef BLOCKDELTA_TEST_NATIVE_RANDOM_SEED_H_
#define BLOCKDELTA_TEST_NATIVE_RANDOM_SEED_H_

#include <cstdint>

namespace blockdelta::test {

// What the running test starts its random numbers from: BLOCKDELTA_TEST_SEED; without it, a number
// derived from the test's name, or from the clock in nightly runs. Prints how to repeat the run, so
// that the log of a test that crashes has it.
uint64_t Seed();

// Whether this is a nightly run, in which random tests are longer: BLOCKDELTA_TEST_NIGHTLY=1.
bool IsNightly();

}  // namespace blockdelta::test

#endif  // BLOCKDELTA_TEST_NATIVE_RANDOM_SEED_H_
