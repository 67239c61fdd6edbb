enum run_result { RUN_TIME, RUN_SIGNAL, RUN_FAILED, RUN_NEED, ... };
