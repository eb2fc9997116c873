#include "tests/sim/rng.h"

#define GOLDEN 0x9e3779b97f4a7c15ull

uint64_t sim_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

struct sim_rng sim_rng_stream(uint64_t seed, uint64_t stream)
{
    return (struct sim_rng){.state = sim_mix(seed * GOLDEN + sim_mix(stream + 1))};
}

uint64_t sim_rng_next(struct sim_rng *r)
{
    r->state += GOLDEN;
    return sim_mix(r->state);
}

uint64_t sim_rng_below(struct sim_rng *r, uint64_t n)
{
    uint64_t x = sim_rng_next(r);

    return n ? x % n : 0;
}

uint64_t sim_rng_between(struct sim_rng *r, uint64_t low, uint64_t high)
{
    return low + sim_rng_below(r, high - low + 1);
}

bool sim_rng_chance(struct sim_rng *r, unsigned percent)
{
    return sim_rng_below(r, 100) < percent;
}
