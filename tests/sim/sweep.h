/* Sweeps over fault points; see sweep.c. */
#ifndef SIM_SWEEP_H
#define SIM_SWEEP_H

#include <stdio.h>

#include "tests/sim/run.h"

bool sim_sweep_known(const char *kind);
void sim_sweep_list(FILE *f);
/* All points from `at` on (0: from the first), every `stride`th; only_one: that one. */
void sim_sweep(const char *kind, struct sim_options *opt, uint64_t at, uint64_t stride, bool only_one, struct sim_stats *total);
void sim_stats_add(struct sim_stats *total, const struct sim_stats *s);

#endif
