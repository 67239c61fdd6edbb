/* The same with the code for processors without SSE2, which stands in for that of the core. */
#undef __SSE2__
#include "format/properties.c"

#include "drive_properties.c"
