/* The checkpointer: a thread with a connection of its own that copies the WAL's frames into the database, so
 * that the writer never does. It sleeps until enough frames are new, or until a commit that finds the WAL
 * over its limit asks.
 *
 * A passive checkpoint copies what is committed while the writer goes on. The WAL begins anew only when a
 * transaction begins while every frame has been copied; under steady load that never comes by itself, so a
 * commit over the limit waits, between two transactions, for one checkpoint: short, because the earlier ones
 * left it only the last commit's frames. */
#include <stdlib.h>
#include "meta/catalog_impl.h"

#define CHECKPOINT_FRAMES 1024u /* new ones that make a checkpoint worth while: about 4 MiB */

struct sfs_checkpointer {
    struct sfs_catalog *cat;
    sqlite3 *db; /* used by the thread only, between start and stop */
    struct sfs_thread *thread;

    struct sfs_mutex m; /* SFS_RANK_LEAF; guards all below */
    struct sfs_cond c;
    bool stop;
    uint64_t frames;      /* in the WAL, as of the last commit */
    uint64_t copied;      /* of them, as of the last checkpoint */
    uint64_t asked, done; /* tickets of those who wait */
    bool all_done;
    int rc; /* of the last checkpoint; 0 only if it copied everything */
};

static int run_once(struct sfs_checkpointer *c, uint64_t *copied)
{
    int in_wal = 0, in_db = 0;
    int rc = sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_wal, &in_db);
    *copied = in_db > 0 ? (uint64_t)in_db : 0;
    if (rc != SQLITE_OK)
        return sfs_db_errno(c->db, rc);
    return in_db >= in_wal ? 0 : -EAGAIN;
}

static void thread_main(void *arg)
{
    struct sfs_checkpointer *c = arg;
    sfs_mutex_lock(&c->m);
    while (!c->stop) {
        if (c->asked == c->done && c->frames < c->copied + CHECKPOINT_FRAMES) {
            sfs_cond_wait(&c->c, &c->m);
            continue;
        }
        uint64_t asked = c->asked, frames = c->frames, copied = 0;
        sfs_mutex_unlock(&c->m);
        int rc = sfs_catalog_broken(c->cat) ? -EROFS : run_once(c, &copied);
        sfs_mutex_lock(&c->m);
        c->rc = rc;
        c->done = asked;
        c->all_done = rc == 0 && c->frames == frames;
        /* After a failure, or with a reader in the way, try again only when there is more to do. */
        if (c->frames >= frames)
            c->copied = rc ? frames : copied;
        sfs_cond_broadcast(&c->c);
    }
    sfs_mutex_unlock(&c->m);
}

int sfs_checkpointer_start(struct sfs_catalog *cat, struct sfs_checkpointer **out)
{
    struct sfs_checkpointer *c = calloc(1, sizeof(*c));
    if (!c)
        return -ENOMEM;
    c->cat = cat;
    sfs_mutex_init(&c->m, cat->env, SFS_RANK_LEAF);
    sfs_cond_init(&c->c, cat->env);
    int rc = sfs_db_open(cat->r, false, &c->db);
    /* With these a checkpoint syncs the WAL before it touches the database, and the database before the WAL
     * may begin anew: the flags of the connection that checkpoints are the ones that count. */
    if (!rc)
        rc = sfs_db_exec(
            c->db, "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -256; SELECT count(*) FROM state;");
    if (!rc)
        rc = sfs_thread_start(cat->env, "sfs-checkpoint", thread_main, c, &c->thread);
    if (rc) {
        sfs_checkpointer_stop(c);
        return rc;
    }
    *out = c;
    return 0;
}

void sfs_checkpointer_stop(struct sfs_checkpointer *c)
{
    if (!c)
        return;
    if (c->thread) {
        sfs_mutex_lock(&c->m);
        c->stop = true;
        sfs_cond_broadcast(&c->c);
        sfs_mutex_unlock(&c->m);
        sfs_thread_join(c->thread);
    }
    sqlite3_close(c->db);
    sfs_cond_destroy(&c->c);
    sfs_mutex_destroy(&c->m);
    free(c);
}

void sfs_checkpointer_note(struct sfs_checkpointer *c, uint64_t frames)
{
    sfs_mutex_lock(&c->m);
    if (frames < c->frames)
        c->copied = 0; /* the WAL began anew */
    c->frames = frames;
    c->all_done = false;
    if (c->frames >= c->copied + CHECKPOINT_FRAMES)
        sfs_cond_broadcast(&c->c);
    sfs_mutex_unlock(&c->m);
}

int sfs_checkpointer_wait(struct sfs_checkpointer *c)
{
    sfs_mutex_lock(&c->m);
    /* One that is running now may have begun before our commit: the ticket is taken up by the next. */
    uint64_t ticket = ++c->asked;
    sfs_cond_broadcast(&c->c);
    while (c->done < ticket && !c->stop)
        sfs_cond_wait(&c->c, &c->m);
    int rc = c->done < ticket ? -EAGAIN : c->rc;
    sfs_mutex_unlock(&c->m);
    return rc;
}

bool sfs_checkpointer_all_done(struct sfs_checkpointer *c)
{
    sfs_mutex_lock(&c->m);
    bool done = c->all_done;
    c->all_done = false;
    sfs_mutex_unlock(&c->m);
    return done;
}
