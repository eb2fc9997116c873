#include "cli/progress.h"

#include <string.h>
#include "cli/ui.h"
#include "fs/base/size.h"

#define BAR_COLUMNS 20u

void sfs_progress_begin(struct sfs_progress *p, struct sfs_env *env, const char *what)
{
    memset(p, 0, sizeof(*p));
    p->env = env;
    snprintf(p->what, sizeof(p->what), "%s", what);
}

static void rate_text(const struct sfs_progress *p, uint64_t now, uint64_t done, uint64_t total, char *out,
                      size_t cap)
{
    double seconds = (double)(now - p->began_ns) / 1e9;
    out[0] = '\0';
    if (seconds < 1 || done <= p->began_done)
        return;
    double rate = (double)(done - p->began_done) / seconds;
    char speed[16], left[32];
    sfs_size_format((uint64_t)rate, speed);
    if (total > done)
        snprintf(out, cap, "  %s/s  %s left", speed,
                 sfs_ui_duration((uint64_t)((double)(total - done) / rate), left));
    else
        snprintf(out, cap, "  %s/s", speed);
}

/* One line that fits: a longer one would go on in the next, and could not be taken away. What isn't needed goes
 * first: the rate, then the end of the text. */
static void draw(const char *text, const char *rate, uint64_t done, uint64_t total, unsigned columns)
{
    char bar[96], has[16], all[16], figures[200];
    sfs_size_format(done, has);
    sfs_size_format(total, all);
    if (total)
        snprintf(figures, sizeof(figures), "%s %u %%  %s of %s", sfs_ui_bar(done, total, BAR_COLUMNS, bar, sizeof(bar)),
                 sfs_ui_percent(done, total), has, all);
    else
        snprintf(figures, sizeof(figures), "%s", has);
    unsigned room = columns - 1, width = sfs_ui_width(figures);
    if (width + sfs_ui_width(rate) > room)
        rate = "";
    room = room > width + sfs_ui_width(rate) + 1 ? room - width - sfs_ui_width(rate) - 1 : 0;
    size_t len = sfs_ui_fit(text, room);
    fprintf(stderr, "\r\033[K%.*s%s%s%s", (int)len, text, len ? " " : "", figures, rate);
}

void sfs_progress_show(struct sfs_progress *p, uint64_t done, uint64_t total, const char *text)
{
    if (!sfs_ui_is_terminal(stderr))
        return;
    uint64_t now = sfs_env_mono_ns(p->env);
    if (!p->began_ns) {
        p->began_ns = now;
        p->began_done = done;
    }
    if (p->drawn && now - p->shown_ns < 100000000u)
        return;
    char clean[128], rate[80];
    sfs_ui_clean(text && *text ? text : p->what, clean, sizeof(clean));
    rate_text(p, now, done, total, rate, sizeof(rate));
    draw(clean, rate, done, total, sfs_ui_columns(stderr));
    fflush(stderr);
    p->drawn = true;
    p->shown_ns = now;
}

void sfs_progress_end(struct sfs_progress *p)
{
    if (!p->drawn)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->drawn = false;
}
