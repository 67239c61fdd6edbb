/* How an actor's loop in C ends and returns to Python, which then handles signals and orders. */
#ifndef ORBITMQ_RUN_H
#define ORBITMQ_RUN_H

enum run_result {
    RUN_TIME = 0,    /* limit_ms are over */
    RUN_SIGNAL = 1,  /* a signal interrupted a sleep */
    RUN_FAILED = 2,  /* the actor's page holds the errno */
    RUN_NEED = 3,    /* Python must do something first: see the actor's header */
};

#endif
