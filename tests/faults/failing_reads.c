/* Preloaded into a process, makes its reads of some files fail with EIO.

   They fail while the file named by $OUTAGE exists, and concern the files whose
   path contains $OUTAGE_OF. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int descriptor) {
  char link[64], path[4096];
  if (access(getenv("OUTAGE"), F_OK)) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  if (!strstr(path, getenv("OUTAGE_OF"))) return 0;
  errno = EIO;
  return 1;
}

ssize_t read(int descriptor, void *data, size_t size) {
  static ssize_t (*real)(int, void *, size_t);
  if (!real) real = dlsym(RTLD_NEXT, "read");
  return fails(descriptor) ? -1 : real(descriptor, data, size);
}

ssize_t pread(int descriptor, void *data, size_t size, off_t offset) {
  static ssize_t (*real)(int, void *, size_t, off_t);
  if (!real) real = dlsym(RTLD_NEXT, "pread");
  return fails(descriptor) ? -1 : real(descriptor, data, size, offset);
}

ssize_t pread64(int descriptor, void *data, size_t size, off64_t offset) {
  static ssize_t (*real)(int, void *, size_t, off64_t);
  if (!real) real = dlsym(RTLD_NEXT, "pread64");
  return fails(descriptor) ? -1 : real(descriptor, data, size, offset);
}
