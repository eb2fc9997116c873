/* The model's states: pushing them, pruning them when something becomes durable, adopting what a crash left. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fs/base/error.h"
#include "tests/sim/model.h"

/* --- as text: one line for each name ---------------------------------------------------------------------------------------------------- */

static void print_bytes(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (isgraph((unsigned char)*s) && *s != '\\')
            fputc(*s, f);
        else
            fprintf(f, "\\x%02x", (unsigned char)*s);
    }
}

static uint64_t hash_bytes(const void *data, size_t len)
{
    const uint8_t *p = data;
    uint64_t h = len;

    for (size_t i = 0; i < len; i++)
        h = sim_mix(h * 31 + p[i] + 1);
    return h;
}

static void print_inode(FILE *f, const char *path, const struct sim_inode *i)
{
    print_bytes(f, *path ? path : "/");
    if (i->ino)
        fprintf(f, " ino %llu", (unsigned long long)i->ino);
    else
        fprintf(f, " ino ?");
    fprintf(f, " mode %o nlink %u owner %u:%u", i->mode, i->nlink, i->uid, i->gid);
    if (S_ISCHR(i->mode) || S_ISBLK(i->mode))
        fprintf(f, " rdev %llx", (unsigned long long)i->rdev);
    if (i->target)
        fprintf(f, " target %zu:%llx", strlen(i->target), (unsigned long long)hash_bytes(i->target, strlen(i->target)));
    for (unsigned n = 0; n < i->nxattrs; n++) {
        fprintf(f, " %s=%zu:%llx", i->xattrs[n].name, i->xattrs[n].len,
                (unsigned long long)hash_bytes(i->xattrs[n].value, i->xattrs[n].len));
    }
    fputc('\n', f);
}

static void print_dir(FILE *f, const char *path, const struct sim_inode *dir)
{
    print_inode(f, path, dir);
    for (unsigned n = 0; n < dir->ndentries; n++) {
        char *child;

        SFS_ASSERT(asprintf(&child, "%s/%s", path, dir->dentries[n].name) > 0);
        if (S_ISDIR(dir->dentries[n].inode->mode))
            print_dir(f, child, dir->dentries[n].inode);
        else
            print_inode(f, child, dir->dentries[n].inode);
        free(child);
    }
}

char *sim_tree_text(const struct sim_tree *t)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    SFS_ASSERT(f);
    print_dir(f, "", t->root);
    SFS_ASSERT(fclose(f) == 0 && text);
    return text;
}

/* How much of both is equal, up to the line in which they differ; in `expected` and `found`. */
static bool equal_part(const char **expected, const char **found)
{
    const char *a = *expected, *b = *found;

    while (*a && *b) {
        if (*a == '?' && *b >= '0' && *b <= '9') {
            a++;
            b += strspn(b, "0123456789");
            continue;
        }
        if (*a != *b)
            return false;
        if (*a == '\n') {
            *expected = a + 1;
            *found = b + 1;
        }
        a++;
        b++;
    }
    return *a == *b;
}

bool sim_text_equal(const char *expected, const char *found)
{
    return equal_part(&expected, &found);
}

/* What of a line is shown: its beginning, and the place where it differs from another. */
static void clip(const char *line, size_t differs, char *out, size_t cap)
{
    size_t len = strcspn(line, "\n"), from = differs > 120 ? differs - 80 : 0;

    if (from > len)
        from = len > 80 ? len - 80 : 0;
    if (from > 0)
        snprintf(out, cap, "%.*s ... %.*s", (int)(len < 24 ? len : 24), line, (int)(len - from < 160 ? len - from : 160), line + from);
    else
        snprintf(out, cap, "%.*s", (int)(len < 200 ? len : 200), line);
}

void sim_text_diff(const char *expected, const char *found, char *out, size_t cap)
{
    char a[220], b[220];
    size_t at = 0;

    if (equal_part(&expected, &found)) {
        snprintf(out, cap, "no difference");
        return;
    }
    while (expected[at] && expected[at] == found[at])
        at++;
    clip(expected, at, a, sizeof(a));
    clip(found, at, b, sizeof(b));
    snprintf(out, cap, "expected \"%s\", found \"%s\"", a, b);
}

/* --- states ---------------------------------------------------------------------------------------------------------------------------- */

struct sim_state *sim_tree_push(struct sim_tree *t, uint64_t start, uint64_t end, uint64_t at_ns)
{
    uint64_t number = t->nstates ? t->states[t->nstates - 1].number + 1 : 0;

    if (t->nstates == t->state_room) {
        t->state_room = t->state_room ? t->state_room * 2 : 16;
        t->states = realloc(t->states, t->state_room * sizeof(*t->states));
        SFS_ASSERT(t->states);
    }
    t->states[t->nstates] =
        (struct sim_state){.number = number, .start = start, .end = end, .at_ns = at_ns, .text = sim_tree_text(t)};
    return &t->states[t->nstates++];
}

static void inode_drop(struct sim_tree *t, struct sim_inode *i)
{
    struct sim_tree one = {0};

    for (unsigned n = 0; n < t->nstates; n++) {
        if (t->states[n].floor_inode == i)
            t->states[n].floor_inode = NULL;
    }
    TAILQ_REMOVE(&t->inodes, i, all);
    TAILQ_INIT(&one.inodes);
    TAILQ_INSERT_TAIL(&one.inodes, i, all);
    sim_tree_free(&one);
}

/* The first n states can't come back. */
static void drop_states(struct sim_tree *t, unsigned n)
{
    struct sim_inode *i, *next;

    if (n == 0)
        return;
    for (unsigned k = 0; k <= n; k++) {
        if (t->states[k].floor_inode)
            sim_content_floor(&t->states[k].floor_inode->content, t->states[k].floor_version);
    }
    for (unsigned k = 0; k < n; k++)
        free(t->states[k].text);
    t->nstates -= n;
    memmove(t->states, t->states + n, t->nstates * sizeof(*t->states));
    for (i = TAILQ_FIRST(&t->inodes); i; i = next) {
        next = TAILQ_NEXT(i, all);
        if (i->gone <= t->states[0].number && i->opens == 0)
            inode_drop(t, i);
    }
}

void sim_tree_durable(struct sim_tree *t, uint64_t clock, bool contents)
{
    struct sim_inode *i;
    unsigned n = 0;

    while (n + 1 < t->nstates && t->states[n + 1].end <= clock)
        n++;
    drop_states(t, n);
    if (!contents)
        return;
    TAILQ_FOREACH(i, &t->inodes, all)
    {
        if (S_ISREG(i->mode)) {
            uint64_t number = 0;

            for (unsigned v = 0; v < i->content.n; v++) {
                if (i->content.versions[v].end <= clock)
                    number = i->content.versions[v].number;
            }
            sim_content_floor(&i->content, number);
        }
    }
}

void sim_tree_durable_ns(struct sim_tree *t, uint64_t ns)
{
    struct sim_inode *i;
    unsigned n = 0;

    while (n + 1 < t->nstates && t->states[n + 1].at_ns <= ns)
        n++;
    drop_states(t, n);
    TAILQ_FOREACH(i, &t->inodes, all)
    {
        if (S_ISREG(i->mode))
            sim_content_floor_ns(&i->content, ns);
    }
}

void sim_tree_adopt(struct sim_tree *t, struct sim_tree *found, uint64_t clock, uint64_t at_ns)
{
    uint64_t number = t->nstates ? t->states[t->nstates - 1].number + 1 : 0;
    struct sim_state *s;

    sim_tree_free(t);
    *t = *found;
    TAILQ_INIT(&t->inodes);
    TAILQ_CONCAT(&t->inodes, &found->inodes, all);
    *found = (struct sim_tree){0};
    TAILQ_INIT(&found->inodes);
    s = sim_tree_push(t, clock, clock, at_ns);
    s->number = number;
}
