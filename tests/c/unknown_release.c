// Compiled twice. As a library (-DLIBRARY) it has the private functions of a libibverbs that is still to come; as a program
// it loads that library and then the provider: `unknown_release LIBRARY PROVIDER`.
#ifdef LIBRARY
#include <stdlib.h>

void verbs_register_driver_71(const void *ops)
{
	(void)ops;
	abort();
}

void verbs_set_ops(void) {}
void verbs_uninit_context(void) {}
void _verbs_init_and_alloc_context(void) {}
void *ibv_qp_to_qp_ex(void *qp) { return qp; }
#else
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (!dlopen(argv[i], RTLD_NOW)) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
	}
	return 0;
}
#endif
