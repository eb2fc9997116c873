/* Talking to a person: errors, warnings, questions, colour, and values as people read them. */
#ifndef SFS_CLI_UI_H
#define SFS_CLI_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sfs_cli;

void sfs_ui_init(void);
/* "spacesfs: ..." on stderr, one line, made safe for a terminal. */
void sfs_ui_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "spacesfs: warning: ..." for each line of text. */
void sfs_ui_warning(const char *text);
void sfs_ui_out_of_memory(void) __attribute__((noreturn));

/* Asks a yes-or-no question; true for yes. With --yes: true at once. Without a terminal to ask on: says so
 * and returns false. */
bool sfs_ui_confirm(const struct sfs_cli *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* May colour and cursor movements be sent to f? (A terminal, TERM not dumb; colour: NO_COLOR not set either.)
 */
bool sfs_ui_is_terminal(FILE *f);
bool sfs_ui_has_colour(FILE *f);
bool sfs_ui_has_utf8(void);
/* Columns of the terminal that f is; 0: it is none, and lines may be as long as they like. */
unsigned sfs_ui_columns(FILE *f);

enum sfs_tone { SFS_TONE_PLAIN, SFS_TONE_GOOD, SFS_TONE_WARN, SFS_TONE_BAD, SFS_TONE_DIM, SFS_TONE_BOLD };
const char *sfs_ui_tone(FILE *f, enum sfs_tone tone); /* "" without colour */
const char *sfs_ui_tone_end(FILE *f, enum sfs_tone tone);

/* A copy of text in which bytes that a terminal would act on, or that aren't UTF-8, stand as \xNN. out is
 * always terminated. */
char *sfs_ui_clean(const char *text, char *out, size_t cap);
/* Columns that clean text takes on a terminal. */
unsigned sfs_ui_width(const char *text);
/* The longest part of clean text that takes at most so many columns, from its beginning: its length in bytes. */
size_t sfs_ui_fit(const char *text, unsigned columns);

/* Prints text on stdout, word by word, in 80 columns; `at` is the column the cursor is in, `indent` that of
 * further lines. Ends the line. */
void sfs_ui_wrap(const char *text, unsigned at, unsigned indent);

/* "1.50 TiB", "15.0 GiB", "150 MiB": three digits; or the plain number with --bytes. */
char *sfs_ui_size(const struct sfs_cli *c, uint64_t bytes, char out[24]);
char *sfs_ui_time(int64_t unix_seconds, char out[32]); /* local time; "-" for 0 */
char *sfs_ui_duration(uint64_t seconds, char out[32]); /* "2 h 5 min" */
/* A bar of `width` columns, filled to done/total. out: at least 3 * width + 3 bytes. */
char *sfs_ui_bar(uint64_t done, uint64_t total, unsigned width, char *out, size_t cap);
unsigned sfs_ui_percent(uint64_t done, uint64_t total); /* rounded down; 100 only when done */

#endif
