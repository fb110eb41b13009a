// A program with a DPDK that is still to come, as far as a driver asks: `unknown_dpdk DRIVER` loads the driver. Compiled with
// -rdynamic.
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>

const char *rte_version(void);
int rte_log(unsigned level, unsigned type, const char *format, ...);

const char *rte_version(void)
{
	return "DPDK 31.11.0";
}

int rte_log(unsigned level, unsigned type, const char *format, ...)
{
	va_list list;

	printf("level %u of type %u: ", level, type);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2 || !dlopen(argv[1], RTLD_NOW)) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	return 0;
}
