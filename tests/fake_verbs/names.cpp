// Texts of libibverbs' enumerations, as the real one has them where tests read them.
#include <infiniband/verbs.h>

extern "C" {

const char* ibv_wc_status_str(ibv_wc_status status) {
    switch (status) {
        case IBV_WC_SUCCESS: return "success";
        case IBV_WC_LOC_LEN_ERR: return "local length error";
        case IBV_WC_LOC_QP_OP_ERR: return "local QP operation error";
        case IBV_WC_LOC_PROT_ERR: return "local protection error";
        case IBV_WC_WR_FLUSH_ERR: return "Work Request Flushed Error";
        case IBV_WC_BAD_RESP_ERR: return "bad response error";
        case IBV_WC_LOC_ACCESS_ERR: return "local access error";
        case IBV_WC_REM_INV_REQ_ERR: return "remote invalid request error";
        case IBV_WC_REM_ACCESS_ERR: return "remote access error";
        case IBV_WC_REM_OP_ERR: return "remote operation error";
        case IBV_WC_RETRY_EXC_ERR: return "transport retry counter exceeded";
        case IBV_WC_RNR_RETRY_EXC_ERR: return "RNR retry counter exceeded";
        case IBV_WC_FATAL_ERR: return "fatal error";
        case IBV_WC_RESP_TIMEOUT_ERR: return "response timeout error";
        default: return "general error";
    }
}

const char* ibv_event_type_str(ibv_event_type event) {
    switch (event) {
        case IBV_EVENT_CQ_ERR: return "CQ error";
        case IBV_EVENT_QP_FATAL: return "local work queue catastrophic error";
        case IBV_EVENT_QP_ACCESS_ERR: return "local access violation work queue error";
        case IBV_EVENT_DEVICE_FATAL: return "local catastrophic error";
        case IBV_EVENT_PORT_ACTIVE: return "port active";
        case IBV_EVENT_PORT_ERR: return "port error";
        case IBV_EVENT_GID_CHANGE: return "GID table change";
        default: return "unknown";
    }
}

const char* ibv_port_state_str(ibv_port_state state) {
    switch (state) {
        case IBV_PORT_NOP: return "no state change (NOP)";
        case IBV_PORT_DOWN: return "DOWN";
        case IBV_PORT_INIT: return "INIT";
        case IBV_PORT_ARMED: return "ARMED";
        case IBV_PORT_ACTIVE: return "ACTIVE";
        default: return "invalid state";
    }
}

const char* ibv_node_type_str(ibv_node_type type) {
    return type == IBV_NODE_CA ? "InfiniBand channel adapter" : "unknown";
}

}  // extern "C"
