# SPDX-License-Identifier: Apache-2.0
# Rules for every text file.
/[ \t\r]$/ { printf "%s:%d: white space at the end of the line\n", FILENAME, FNR }
