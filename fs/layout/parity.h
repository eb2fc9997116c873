/* P and Q of a stripe, by ISA-L (the only file that includes it is parity.c). Pure. */
#ifndef SFS_LAYOUT_PARITY_H
#define SFS_LAYOUT_PARITY_H

#include <stddef.h>
#include <stdint.h>

/* units: data units 0..data-1, then parity units (1 or 2); all `len` bytes (a multiple of 32), 32-byte aligned. Writes the parity units. */
void sfs_parity_encode(unsigned data, unsigned parity, uint8_t *const *units, size_t len);
/* Makes the units listed in lost[0..nlost) anew from all others; nlost <= parity. 0, or -EINVAL for more losses than parity. */
int sfs_parity_rebuild(unsigned data, unsigned parity, uint8_t *const *units, size_t len, const unsigned *lost, unsigned nlost);

#endif
