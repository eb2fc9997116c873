/* The simulator's own random numbers: several independent streams from one seed, so that a new choice in one place leaves the others alone. */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct sim_rng {
    uint64_t state;
};

uint64_t sim_mix(uint64_t x); /* splitmix64's finalizer: a bijection */
struct sim_rng sim_rng_stream(uint64_t seed, uint64_t stream);
uint64_t sim_rng_next(struct sim_rng *r);
uint64_t sim_rng_below(struct sim_rng *r, uint64_t n);               /* 0..n-1; 0 for n == 0 */
uint64_t sim_rng_between(struct sim_rng *r, uint64_t low, uint64_t high); /* both included */
bool sim_rng_chance(struct sim_rng *r, unsigned percent);

#endif
