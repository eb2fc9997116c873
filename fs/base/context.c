/* Contexts by ucontext(3). */
#include "fs/base/context.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "fs/base/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CONTEXT_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define CONTEXT_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(CONTEXT_ASAN)
#define CONTEXT_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(CONTEXT_TSAN)
#define CONTEXT_TSAN 1
#endif
#ifdef CONTEXT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef CONTEXT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if defined(CONTEXT_ASAN) || defined(CONTEXT_TSAN)
#define STACK_BYTES ((size_t)1 << 20) /* frames are larger there */
#else
#define STACK_BYTES ((size_t)512 << 10)
#endif
#define GUARD_BYTES ((size_t)64 << 10)
#define STACKS_KEPT 64u

struct sfs_context {
    struct sfs_contexts *set;
    ucontext_t uc;
    uint8_t *stack; /* lowest usable byte; NULL for main */
    void (*fn)(void *);
    void *arg;

    /* for the sanitizers */
    const void *san_bottom;
    size_t san_bytes;
    void *san_fake;
    void *san_fiber;
};

struct sfs_contexts {
    struct sfs_context main;
    struct sfs_context *current, *previous;
    unsigned count; /* besides main */
    uint8_t *stacks[STACKS_KEPT];
    unsigned nstacks;
};

static uint8_t *stack_new(struct sfs_contexts *set)
{
    uint8_t *p;

    if (set->nstacks > 0) {
        p = set->stacks[--set->nstacks];
    } else {
        p = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
        if (p == MAP_FAILED)
            return NULL;
        SFS_ASSERT(mprotect(p, GUARD_BYTES, PROT_NONE) == 0);
        p += GUARD_BYTES;
    }
#ifdef CONTEXT_ASAN
    ASAN_UNPOISON_MEMORY_REGION(p, STACK_BYTES); /* what frames of its last user left behind */
#endif
    return p;
}

static void stack_unmap(uint8_t *stack)
{
    SFS_ASSERT(munmap(stack - GUARD_BYTES, GUARD_BYTES + STACK_BYTES) == 0);
}

static void stack_free(struct sfs_contexts *set, uint8_t *stack)
{
    if (set->nstacks < STACKS_KEPT)
        set->stacks[set->nstacks++] = stack;
    else
        stack_unmap(stack);
}

struct sfs_contexts *sfs_contexts_new(void)
{
    struct sfs_contexts *set = calloc(1, sizeof(*set));

    if (!set)
        return NULL;
    set->main.set = set;
    set->current = &set->main;
    return set;
}

void sfs_contexts_free(struct sfs_contexts *set)
{
    if (!set)
        return;
    SFS_ASSERT(set->current == &set->main && set->count == 0);
    while (set->nstacks > 0)
        stack_unmap(set->stacks[--set->nstacks]);
    free(set);
}

struct sfs_context *sfs_contexts_main(struct sfs_contexts *set)
{
    return &set->main;
}

/* In the context that has just been switched to. */
static void after_switch(struct sfs_contexts *set)
{
#ifdef CONTEXT_ASAN
    const void *bottom;
    size_t bytes;

    __sanitizer_finish_switch_fiber(set->current->san_fake, &bottom, &bytes);
    if (set->previous == &set->main) { /* its stack isn't ours: learn where it is */
        set->main.san_bottom = bottom;
        set->main.san_bytes = bytes;
    }
#else
    (void)set;
#endif
}

void sfs_context_switch(struct sfs_context *from, struct sfs_context *to, bool last)
{
    struct sfs_contexts *set = from->set;

    SFS_ASSERT(set->current == from && from != to);
    set->previous = from;
    set->current = to;
#ifdef CONTEXT_ASAN
    __sanitizer_start_switch_fiber(last ? NULL : &from->san_fake, to->san_bottom, to->san_bytes);
#endif
#ifdef CONTEXT_TSAN
    if (from == &set->main)
        from->san_fiber = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(to->san_fiber, 0);
#endif
    SFS_ASSERT(swapcontext(&from->uc, &to->uc) == 0);
    SFS_ASSERT(!last);
    after_switch(set);
}

/* makecontext hands over ints only. */
static void context_main(unsigned high, unsigned low)
{
    struct sfs_context *c = (struct sfs_context *)(uintptr_t)((uint64_t)high << 32 | low);

    after_switch(c->set);
    c->fn(c->arg);
    sfs_bug(__FILE__, __LINE__, "the function of a context returned");
}

static void prepare(struct sfs_context *c)
{
    uint64_t address = (uint64_t)(uintptr_t)c;

    SFS_ASSERT(getcontext(&c->uc) == 0);
    c->uc.uc_stack.ss_sp = c->stack;
    c->uc.uc_stack.ss_size = STACK_BYTES;
    c->uc.uc_link = NULL;
    makecontext(&c->uc, (void (*)(void))context_main, 2, (unsigned)(address >> 32), (unsigned)address);
    /* ASan would wipe what it knows about a live stack at each swapcontext; with no size it leaves that to the
     * calls above. */
    c->uc.uc_stack.ss_size = 0;
}

struct sfs_context *sfs_context_new(struct sfs_contexts *set, const char *name, void (*fn)(void *), void *arg)
{
    struct sfs_context *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->stack = stack_new(set);
    if (!c->stack) {
        free(c);
        return NULL;
    }
    c->set = set;
    c->fn = fn;
    c->arg = arg;
    c->san_bottom = c->stack;
    c->san_bytes = STACK_BYTES;
#ifdef CONTEXT_TSAN
    c->san_fiber = __tsan_create_fiber(0);
    __tsan_set_fiber_name(c->san_fiber, name);
#else
    (void)name;
#endif
    prepare(c);
    set->count++;
    return c;
}

void sfs_context_free(struct sfs_context *c)
{
    if (!c)
        return;
    SFS_ASSERT(c != c->set->current && c != &c->set->main);
#ifdef CONTEXT_TSAN
    __tsan_destroy_fiber(c->san_fiber);
#endif
    stack_free(c->set, c->stack);
    c->set->count--;
    free(c);
}
